"""Dots that read contiguous slices of larger arrays where these lie."""

from __future__ import annotations

import numpy as np
import pytest

import hloc
from fuzz.agreement import TABLE, check
from hloc.ir.traversal import all_instructions
from hloc.opt.pass_base import PassContext
from hloc.opt.pipelines import pipeline_for
from tests.inputs import inputs_for

STARTS = (1, -4, 7)
"""Those out of range are clamped."""


def stacked(rows: int, dtype: str, *, transposed: bool = False, index: str = "s32") -> str:
    """Return a product of rows by one of three matrices, of more than 16 KB each."""
    sizes = "128,96" if transposed else "96,128"
    return f"""
HloModule m

ENTRY e {{
  x = {dtype}[{rows},96] parameter(0)
  weights = {dtype}[3,{sizes}] parameter(1)
  layer = {index}[] parameter(2)
  zero = {index}[] constant(0)
  slice = {dtype}[1,{sizes}] dynamic-slice(weights, layer, zero, zero),
    dynamic_slice_sizes={{1,{sizes}}}
  w = {dtype}[{sizes}] reshape(slice)
  ROOT d = {dtype}[{rows},128] dot(x, w), lhs_contracting_dims={{1}},
    rhs_contracting_dims={{{int(transposed)}}}
}}"""


def copies(text: str) -> list[str]:
    """Return the slices that the optimised module does not compute inside of a product."""
    module = hloc.parse(text)
    pipeline_for(2).run(module, PassContext())
    return [
        inst.name
        for inst in all_instructions(module)
        if inst.is_a("slice", "dynamic-slice")
        and not any(other.is_a("dot") for other in inst.computation.instructions)
    ] + [i.name for i in module.entry.instructions if i.is_a("slice", "dynamic-slice")]


def check_text(text: str, start: np.generic | None = None) -> None:
    """Check that no slice is copied, and the answers."""
    assert not copies(text)
    module = hloc.parse(text)
    arrays = inputs_for(module, special=False)
    if start is not None:
        arrays[2] = np.asarray(start)
    check(module, arrays, TABLE)


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("rows", [1, 3, 20])
@pytest.mark.parametrize("dtype", ["f32", "bf16", "s32", "c64"])
def test_a_layer_is_read_where_it_lies(start: int, rows: int, dtype: str) -> None:
    check_text(stacked(rows, dtype), np.int32(start))


@pytest.mark.parametrize("rows", [1, 20])
def test_a_layer_may_be_transposed(rows: int) -> None:
    check_text(stacked(rows, "f32", transposed=True), np.int32(2))


@pytest.mark.parametrize("start", [np.uint64(1 << 63), np.uint64(1), np.int8(-1)])
def test_starts_are_clamped_by_their_own_sign(start: np.generic) -> None:
    index = {"uint64": "u64", "int8": "s8"}[start.dtype.name]
    check_text(stacked(3, "f32", index=index), start)


def test_the_start_may_be_one_vector() -> None:
    check_text("""
HloModule m

ENTRY e {
  x = f32[4,96] parameter(0)
  weights = f32[3,2,96,64] parameter(1)
  at = s32[4] constant({2, 1, 5, -7})
  slice = f32[1,1,96,64] dynamic-slice(weights, at), dynamic_slice_sizes={1,1,96,64}
  w = f32[96,64] reshape(slice)
  ROOT d = f32[4,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}""")


def test_both_sides_of_a_product_with_an_epilogue_are_slices() -> None:
    check_text("""
HloModule m

ENTRY e {
  x = f32[700,64] parameter(0)
  rows = f32[400,64] slice(x), slice={[100:500],[0:64]}
  w = f32[128,192] parameter(1)
  steps = f32[64,192] slice(w), slice={[64:128],[0:192]}
  d = f32[400,192] dot(rows, steps), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  bias = f32[400,192] parameter(2)
  ROOT sum = f32[400,192] add(d, bias)
}""")


def test_the_layers_of_a_loop_are_not_copied() -> None:
    check_text("""
HloModule m

condition {
  state = (s32[], f32[2,96], f32[5,96,96]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  end = s32[] constant(5)
  ROOT more = pred[] compare(i, end), direction=LT
}

body {
  state = (s32[], f32[2,96], f32[5,96,96]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  x = f32[2,96] get-tuple-element(state), index=1
  weights = f32[5,96,96] get-tuple-element(state), index=2
  zero = s32[] constant(0)
  slice = f32[1,96,96] dynamic-slice(weights, i, zero, zero), dynamic_slice_sizes={1,96,96}
  w = f32[96,96] reshape(slice)
  d = f32[2,96] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  third = f32[] constant(0.3)
  scale = f32[2,96] broadcast(third), dimensions={}
  y = f32[2,96] multiply(d, scale)
  one = s32[] constant(1)
  next = s32[] add(i, one)
  ROOT after = (s32[], f32[2,96], f32[5,96,96]) tuple(next, y, weights)
}

ENTRY e {
  x = f32[2,96] parameter(0)
  weights = f32[5,96,96] parameter(1)
  zero = s32[] constant(0)
  state = (s32[], f32[2,96], f32[5,96,96]) tuple(zero, x, weights)
  loop = (s32[], f32[2,96], f32[5,96,96]) while(state), condition=condition, body=body
  ROOT y = f32[2,96] get-tuple-element(loop), index=1
}""")
