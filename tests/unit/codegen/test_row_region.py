"""Fusions by rows and by columns: every piece of the rows alone, long rows, rows that are kept."""

from __future__ import annotations

import re

import numpy as np
import pytest

import hloc
from hloc.analysis.in_place import may_overwrite
from hloc.codegen.cpu.emitters.reduction import row_region
from hloc.codegen.cpu.kernel import needs_defusion
from hloc.codegen.kernels.lanes import lane_count
from hloc.codegen.llvm.target import host_target
from hloc.ops import OPCODES
from hloc.opt.fusion.columns import reduces_of
from hloc.opt.fusion.row_plan import row_plan
from tests.tolerance import bounds
from tests.unit.codegen.harness import (
    check_root,
    emit,
    kernel_text,
    module_text,
    parse_text,
    random_arrays,
    reducer,
    run_instruction,
)

ADD = reducer("add", "add", "f32") + reducer("top", "maximum", "f32")


def fusion(body: str, parameters: list[str], result: str) -> str:
    operands = ", ".join(f"p{i}" for i in range(len(parameters)))
    return module_text(parameters, f"{result} fusion({operands}), kind=kInput, calls=f", ADD + body)


def softmax(dims: str, rows: str, last: int, outer: str) -> str:
    body = f"""
f {{
  x = f32[{dims}] parameter(0)
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  m = f32[{rows}] reduce(x, low), dimensions={{{last}}}, to_apply=top
  mb = f32[{dims}] broadcast(m), dimensions={{{outer}}}
  d = f32[{dims}] subtract(x, mb)
  e = f32[{dims}] exponential(d)
  s = f32[{rows}] reduce(e, zero), dimensions={{{last}}}, to_apply=add
  sb = f32[{dims}] broadcast(s), dimensions={{{outer}}}
  q = f32[{dims}] divide(e, sb)
  l = f32[{rows}] log(s)
  ROOT r = (f32[{dims}], f32[{rows}], f32[{dims}]) tuple(q, l, e)
}}"""
    return fusion(body, [f"f32[{dims}]"], f"(f32[{dims}], f32[{rows}], f32[{dims}])")


@pytest.mark.parametrize(
    ("dims", "rows", "last", "outer"),
    [
        ("5,9", "5", 1, "0"),
        ("2,3,33", "2,3", 2, "0,1"),
        ("2,1,40", "2,1", 2, "0,1"),
        ("3,1500", "3", 1, "0"),
        ("1,2048", "1", 1, "0"),
        ("70", "", 0, ""),
    ],
)
@pytest.mark.parametrize("pieces", [1, 2])
def test_softmax(dims: str, rows: str, last: int, outer: str, pieces: int) -> None:
    text = softmax(dims, rows, last, outer)
    inst = parse_text(text).entry.root
    assert row_region.plan(inst) is not None
    assert not needs_defusion(inst)
    (x,) = random_arrays(text)
    q, logarithm, e = run_instruction(inst, [x], pieces=pieces)
    d = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    np.testing.assert_allclose(e, d, **bounds("f32 one sign"))
    np.testing.assert_allclose(q, d / d.sum(-1, keepdims=True), **bounds("f32 one sign"))
    np.testing.assert_allclose(logarithm, np.log(d.sum(-1)), **bounds("f32 short sum"))


def test_no_code_is_written_and_thrown_away() -> None:
    """Rows of 10 are a vector and a part of one: there is no loop over whole vectors between."""
    text = softmax("100,10", "100", 1, "0")
    kernel = emit(parse_text(text).entry.root)
    numbers = {int(number) for number in re.findall(r"%v(\d+) = ", kernel.text)}
    assert numbers == set(range(1, len(numbers) + 1))


def test_the_plan_of_rows_is_made_once_until_the_computation_changes() -> None:
    inst = parse_text(softmax("100,10", "100", 1, "0")).entry.root
    (body,) = inst.called
    plan = row_plan(body)
    assert plan is not None
    assert row_plan(body) is plan
    body.remove(body.add(OPCODES["negate"], plan.outputs[0].shape, [plan.outputs[0]]))
    assert row_plan(body) is not plan


def test_a_long_row_is_summed_in_blocks() -> None:
    size = 1 << 16
    body = f"""
f {{
  x = f32[2,{size}] parameter(0)
  zero = f32[] constant(0)
  s = f32[2] reduce(x, zero), dimensions={{1}}, to_apply=add
  sb = f32[2,{size}] broadcast(s), dimensions={{0}}
  ROOT r = f32[2,{size}] subtract(x, sb)
}}"""
    text = fusion(body, [f"f32[2,{size}]"], f"f32[2,{size}]")
    x = np.full((2, size), 0.1, np.float32)
    (found,) = run_instruction(parse_text(text).entry.root, [x])
    np.testing.assert_allclose(
        found, x - x.sum(-1, keepdims=True, dtype=np.float64), **bounds("f32 few roundings")
    )


BEST = """
best {
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  c = f32[] parameter(2)
  j = s32[] parameter(3)
  less = pred[] compare(a, c), direction=LT
  unordered = pred[] compare(a, a), direction=NE
  left = pred[] or(less, unordered)
  same = pred[] compare(a, c), direction=EQ
  before = pred[] compare(i, j), direction=LT
  tie = pred[] and(same, before)
  here = pred[] or(left, tie)
  value = f32[] select(left, a, c)
  place = s32[] select(here, i, j)
  ROOT pair = (f32[], s32[]) tuple(value, place)
}
"""


@pytest.mark.parametrize("size", [5, 64, 700])
def test_the_place_of_the_least_beside_a_sum_is_found_with_integer_keys(size: int) -> None:
    body = f"""
f {{
  x = f32[6,{size}] parameter(0)
  places = s32[6,{size}] iota(), iota_dimension=1
  high = f32[] constant(inf)
  none = s32[] constant(0)
  zero = f32[] constant(0)
  pair = (f32[6], s32[6]) reduce(x, places, high, none), dimensions={{1}}, to_apply=best
  place = s32[6] get-tuple-element(pair), index=1
  value = f32[6] get-tuple-element(pair), index=0
  s = f32[6] reduce(x, zero), dimensions={{1}}, to_apply=add
  sb = f32[6,{size}] broadcast(s), dimensions={{0}}
  d = f32[6,{size}] subtract(x, sb)
  ROOT r = (s32[6], f32[6], f32[6,{size}]) tuple(place, value, d)
}}"""
    text = fusion(BEST + body, [f"f32[6,{size}]"], f"(s32[6], f32[6], f32[6,{size}])")
    inst = parse_text(text).entry.root
    x = np.random.default_rng(size).integers(-40, 40, (6, size)).astype(np.float32)
    x[1, size // 2] = x[1, size - 1] = np.nan
    places, values, centred = run_instruction(inst, [x], pieces=2)
    np.testing.assert_array_equal(places, x.argmin(1))
    np.testing.assert_array_equal(values, x.min(1))
    np.testing.assert_array_equal(centred, x - x.sum(1, keepdims=True))
    if size > 5:
        assert "llvm.umax" in kernel_text(emit(inst))


def test_rows_seen_through_reshapes() -> None:
    body = """
f {
  x = f32[4,6,5] parameter(0)
  zero = f32[] constant(0)
  flat = f32[24,5] reshape(x)
  e = f32[24,5] exponential(flat)
  s = f32[24] reduce(e, zero), dimensions={1}, to_apply=add
  t = f32[4,6] reshape(s)
  tb = f32[4,6,5] broadcast(t), dimensions={0,1}
  back = f32[4,6,5] reshape(e)
  ROOT r = f32[4,6,5] divide(back, tb)
}"""
    text = fusion(body, ["f32[4,6,5]"], "f32[4,6,5]")
    assert row_region.plan(parse_text(text).entry.root) is not None
    check_root(text, random_arrays(text))


def test_several_dimensions_in_a_row() -> None:
    body = """
f {
  x = f32[3,4,5] parameter(0)
  w = f32[5] parameter(1)
  zero = f32[] constant(0)
  q = f32[3,4,5] multiply(x, x)
  s = f32[3] reduce(q, zero), dimensions={1,2}, to_apply=add
  sb = f32[3,4,5] broadcast(s), dimensions={0}
  wb = f32[3,4,5] broadcast(w), dimensions={2}
  n = f32[3,4,5] multiply(x, sb)
  ROOT r = f32[3,4,5] multiply(n, wb)
}"""
    text = fusion(body, ["f32[3,4,5]", "f32[5]"], "f32[3,4,5]")
    assert row_region.plan(parse_text(text).entry.root) is not None
    check_root(text, random_arrays(text))


def test_a_row_that_is_read_at_another_place_is_left_to_others() -> None:
    body = """
f {
  x = f32[4,4] parameter(0)
  zero = f32[] constant(0)
  s = f32[4] reduce(x, zero), dimensions={1}, to_apply=add
  sb = f32[4,4] broadcast(s), dimensions={1}
  ROOT r = f32[4,4] divide(x, sb)
}"""
    text = fusion(body, ["f32[4,4]"], "f32[4,4]")
    assert row_region.plan(parse_text(text).entry.root) is None
    check_root(text, random_arrays(text))


@pytest.mark.parametrize("count", [7, 300, 3000])
@pytest.mark.parametrize("size", [3, 300])
@pytest.mark.parametrize("pieces", [1, 2])
def test_columns_and_what_is_made_of_them(count: int, size: int, pieces: int) -> None:
    body = f"""
f {{
  x = f32[{count},{size}] parameter(0)
  zero = f32[] constant(0)
  low = f32[] constant(-inf)
  q = f32[{count},{size}] multiply(x, x)
  s = f32[{size}] reduce(x, zero), dimensions={{0}}, to_apply=add
  t = f32[{size}] reduce(q, zero), dimensions={{0}}, to_apply=add
  m = f32[{size}] reduce(x, low), dimensions={{0}}, to_apply=top
  d = f32[{size}] subtract(m, s)
  ROOT r = (f32[{size}], f32[{size}], f32[{size}]) tuple(d, t, s)
}}"""
    shape = f"f32[{size}]"
    text = fusion(body, [f"f32[{count},{size}]"], f"({shape}, {shape}, {shape})")
    inst = parse_text(text).entry.root
    assert len(reduces_of(inst)) == 3
    assert not needs_defusion(inst)
    (x,) = random_arrays(text)
    d, t, s = run_instruction(inst, [x], pieces=pieces)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(s, wide.sum(0), **bounds("f32 sum"))
    np.testing.assert_allclose(t, (wide * wide).sum(0), **bounds("f32 one sign"))
    np.testing.assert_allclose(d, wide.max(0) - wide.sum(0), **bounds("f32 sum"))


IN_PLACE = """
f {
  x = f32[6,50] parameter(0)
  y = f32[6,50] parameter(1)
  zero = f32[] constant(0)
  e = f32[6,50] exponential(x)
  s = f32[6] reduce(e, zero), dimensions={1}, to_apply=add
  sb = f32[6,50] broadcast(s), dimensions={0}
  a = f32[6,50] multiply(e, y)
  b = f32[6,50] divide(x, sb)
  ROOT r = (f32[6,50], f32[6,50]) tuple(a, b)
}"""


def test_a_result_may_take_the_memory_of_an_operand_after_its_last_use() -> None:
    parameters = ["f32[6,50]", "f32[6,50]"]
    text = fusion(IN_PLACE, parameters, "(f32[6,50], f32[6,50])")
    inst = parse_text(text).entry.root
    allowed = {
        (operand, result)
        for operand in range(2)
        for result in range(2)
        if may_overwrite(inst, operand, (result,))
    }
    assert allowed == {(0, 1), (1, 0), (1, 1)}  # `a` is written while `x` is still needed
    arrays = random_arrays(text)
    for aliased in [(None, 0), (1, None), (None, 1), (1, 0)]:
        check_root(text, arrays, aliased=aliased, pieces=2)


@pytest.mark.parametrize(("count", "by_rows"), [(12, False), (3, True)])
def test_what_follows_sums_of_few_elements_is_made_in_vectors(count: int, by_rows: bool) -> None:
    """Distances in space: loops over the results, where these fill a vector."""
    pairs, dims = f"f32[{count},{count}]", f"f32[{count},{count},3]"
    body = f"""
f {{
  x = {dims} parameter(0)
  zero = f32[] constant(0)
  squares = {dims} multiply(x, x)
  sums = {pairs} reduce(squares, zero), dimensions={{2}}, to_apply=add
  one = f32[] constant(1)
  ones = {pairs} broadcast(one), dimensions={{}}
  above = {pairs} add(sums, ones)
  ROOT r = {pairs} sqrt(above)
}}"""
    text = fusion(body, [dims], pairs)
    assert (row_region.plan(parse_text(text).entry.root) is not None) == by_rows
    check_root(text, random_arrays(text))


@pytest.mark.parametrize("dims", [(40, 33), (2, 17, 64)])
def test_rows_that_are_read_across_are_made_in_vectors(dims: tuple[int, ...]) -> None:
    """A row of `t`, which lies in columns, is read once, element by element, and its sum kept."""
    along = ",".join(map(str, reversed(range(len(dims)))))
    across = ",".join(map(str, (len(dims) - 2, len(dims) - 1, *reversed(range(len(dims) - 2)))))
    sizes, rows = ",".join(map(str, dims)), ",".join(map(str, dims[:-1]))
    last, outer = len(dims) - 1, ",".join(map(str, range(len(dims) - 1)))
    row, column = f"f32[{sizes}]{{{along}}}", f"f32[{sizes}]{{{across}}}"
    text = f"""HloModule m, entry_computation_layout={{({row}, {column})->{row}}}
{reducer("add", "add", "f32")}
f {{
  x = f32[{sizes}] parameter(0)
  t = {column} parameter(1)
  a = f32[{sizes}] add(x, t)
  e = f32[{sizes}] exponential(a)
  z = f32[] constant(0)
  s = f32[{rows}] reduce(e, z), dimensions={{{last}}}, to_apply=add
  b = f32[{sizes}] broadcast(s), dimensions={{{outer}}}
  ROOT r = f32[{sizes}] divide(a, b)
}}
ENTRY main {{
  x = f32[{sizes}] parameter(0)
  t = {column} parameter(1)
  ROOT r = f32[{sizes}] fusion(x, t), kind=kInput, calls=f
}}"""
    inst = parse_text(text).entry.root
    plan = row_plan(inst.called[0])
    assert plan is not None
    assert [kept.name for stage in plan.stages for kept in stage.keeps] == ["a"]
    lanes = lane_count(inst, host_target())
    assert not lanes or f"<{lanes} x float>" in emit(inst).text
    x, t = (np.random.default_rng(n).normal(size=dims).astype(np.float32) for n in (0, 1))
    (got,) = hloc.compile(text, opt_level=0)(x, t)
    sums = np.exp(x.astype(np.float64) + t).sum(-1, keepdims=True)
    np.testing.assert_allclose(got, (x + t) / sums, **bounds("f32 short sum"))
