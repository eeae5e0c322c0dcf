"""Functions of f64 in lanes: own polynomials instead of calls of the C library, one by one.

Guards run time too: such a kernel is in its final form.
"""

from __future__ import annotations

import numpy as np
import pytest

import hloc
from hloc.codegen.llvm.routine import FINAL_WITH_SLOTS
from hloc.codegen.llvm.target import host_target
from tests.tolerance import bounds
from tests.unit.codegen.harness import emit, module_text, parse_text

OPCODES = (
    "exponential", "exponential-minus-one", "log", "log-plus-one", "tanh", "logistic", "erf",
    "cbrt",
)  # fmt: skip
SIZE = 1003


def special() -> np.ndarray:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(SIZE) * 10.0 ** rng.integers(-3, 3, SIZE)
    x[:10] = [np.nan, np.inf, -np.inf, 0.0, -0.0, 709.7, 710, -745.2, -746, 5e-324]
    return np.asarray(x)


@pytest.mark.parametrize("opcode", OPCODES)
def test_functions(opcode: str) -> None:
    text = module_text([f"f64[{SIZE}]"], f"f64[{SIZE}] {opcode}(p0)")
    x = special()
    (found,) = hloc.compile(text)(x)
    with np.errstate(all="ignore"):
        (expected,) = hloc.evaluate(text, x)
    np.testing.assert_allclose(found, expected, **bounds("f64 function"))


@pytest.mark.skipif(not host_target().has("avx512f"), reason="made for vectors with FMA")
@pytest.mark.parametrize("opcode", OPCODES)
def test_they_are_made_in_lanes(opcode: str) -> None:
    text = module_text([f"f64[{SIZE}]"], f"f64[{SIZE}] {opcode}(p0)")
    assert emit(parse_text(text).entry.root).level == FINAL_WITH_SLOTS
