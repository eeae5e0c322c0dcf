"""Rows shorter than a vector with numbers that all share: walked through as one row.

Guards run time too: loops of three or ten elements are not what LLVM makes good vectors of.
"""

from __future__ import annotations

import numpy as np
import pytest

import hloc
from hloc.codegen.cpu.emitters import loop
from hloc.codegen.llvm.target import host_target
from hloc.dtypes import DTYPES
from tests.tolerance import bounds_of
from tests.unit.codegen.harness import check_root, emit, parse_text, random_arrays


def affine(dtype: str, dims: str, last: str, kept: str) -> str:
    """Return a fusion: x times one shared row and another."""
    return f"""HloModule m
f {{
  x = {dtype}[{dims}] parameter(0)
  s = {dtype}[{last}] parameter(1)
  o = {dtype}[{last}] parameter(2)
  t = {dtype}[{last}] multiply(s, o)
  tb = {dtype}[{dims}] broadcast(t), dimensions={{{kept}}}
  ob = {dtype}[{dims}] broadcast(o), dimensions={{{kept}}}
  y = {dtype}[{dims}] multiply(x, tb)
  ROOT r = {dtype}[{dims}] add(y, ob)
}}
ENTRY e {{
  p0 = {dtype}[{dims}] parameter(0)
  p1 = {dtype}[{last}] parameter(1)
  p2 = {dtype}[{last}] parameter(2)
  ROOT c = {dtype}[{dims}] fusion(p0, p1, p2), kind=kLoop, calls=f
}}"""


@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "s32", "s8"])
@pytest.mark.parametrize(
    ("dims", "last", "kept"),
    [
        ("1001,3", "3", "1"),
        ("700,5", "5", "1"),
        ("5,300,7", "7", "2"),
        ("401,10", "10", "1"),
        ("301,3,5", "3,5", "1,2"),
        ("2049,2", "2", "1"),
    ],
)
def test_shared_rows(dtype: str, dims: str, last: str, kept: str) -> None:
    text = affine(dtype, dims, last, kept)
    arguments = random_arrays(text)
    (found,) = hloc.compile(text, threads=1)(*arguments)
    (expected,) = hloc.evaluate(text, *arguments)
    if DTYPES[dtype].is_float:
        # A product and a sum may be rounded once.
        np.testing.assert_allclose(
            found.astype(np.float64),
            expected.astype(np.float64),
            **bounds_of("repeated rows", dtype),
        )
    else:
        np.testing.assert_array_equal(found, expected)
    (other,) = hloc.compile(text, threads=2)(*arguments)
    assert found.tobytes() == other.tobytes()


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_parts_of_threads_begin_at_any_row(parts: int) -> None:
    text = affine("f32", "1001,3", "3", "1")
    plan = loop.plan(parse_text(text).entry.root)
    assert plan is not None
    assert plan.is_one_row
    check_root(text, random_arrays(text), pieces=parts)


def test_a_result_over_its_operand() -> None:
    text = affine("f32", "1001,3", "3", "1")
    check_root(text, random_arrays(text), aliased=[0])


@pytest.mark.skipif(not host_target().has("avx512f"), reason="made for vectors of 16")
def test_vectors_are_whole() -> None:
    text = affine("f32", "1001,3", "3", "1")
    assert "load <16 x float>" in emit(parse_text(text).entry.root).text
