"""Values that all elements of a row or of an array share: computed before the loop over them."""

from __future__ import annotations

import re

import pytest

from hloc.codegen.llvm.target import target_for
from tests.tolerance import bounds_of
from tests.unit.codegen.harness import check_root, emit, module_text, parse_text, random_arrays

AVX2 = target_for("x86_64", "haswell")


def divided(dims: str, of_value: str, broadcast: str, opcode: str = "negate") -> str:
    """Return a function of an array divided by square roots that are broadcast."""
    whole, value = f"f32[{dims}]", f"f32[{of_value}]"
    body = f"""
f {{
  x = {whole} parameter(0)
  t = {value} parameter(1)
  a = {value} abs(t)
  s = {value} sqrt(a)
  b = {whole} broadcast(s), dimensions={{{broadcast}}}
  d = {whole} divide(x, b)
  ROOT r = {whole} {opcode}(d)
}}"""
    return module_text([whole, value], f"{whole} fusion(p0, p1), kind=kLoop, calls=f", body)


ROWS = divided("40,50", "40", "0")
IMAGES = divided("6,5,70", "6", "0")
SCALAR = divided("5000", "", "")
SCALAR_OF_ROWS = divided("40,50", "", "")
NARROW = divided("40,3", "40", "0")
NARROW_FUNCTIONS = divided("40,3", "40", "0", "tanh")
COLUMNS = divided("40,50", "50", "1")


@pytest.mark.parametrize("text", [ROWS, IMAGES, SCALAR, SCALAR_OF_ROWS])
def test_what_is_shared_is_computed_before_the_loop(text: str) -> None:
    kernel = emit(parse_text(text).entry.root, target=AVX2).text
    assert kernel.count("@llvm.sqrt.f32(") == 1
    before_loop, _ = re.split(r"load <\d+ x float>", kernel, maxsplit=1)
    assert "@llvm.sqrt.f32(" in before_loop


def test_what_is_different_along_a_row_is_computed_there() -> None:
    kernel = emit(parse_text(COLUMNS).entry.root, target=AVX2).text
    assert "@llvm.sqrt.v8f32(" in kernel


def test_narrow_rows_share_values_between_columns() -> None:
    kernel = emit(parse_text(NARROW_FUNCTIONS).entry.root, target=AVX2).text
    assert kernel.count("@llvm.sqrt.v8f32(") == 1
    last_loop = kernel.rindex("phi i64")
    assert kernel.index("@llvm.sqrt.v8f32(") < last_loop


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        *((text, pieces) for text in (ROWS, IMAGES, NARROW, NARROW_FUNCTIONS) for pieces in (1, 3)),
        (SCALAR, 1),  # parts of one loop begin at whole vectors
        (SCALAR_OF_ROWS, 1),
        (COLUMNS, 3),
    ],
)
def test_results(text: str, pieces: int) -> None:
    check_root(text, random_arrays(text), pieces=pieces, **bounds_of("elementwise", "f32"))
