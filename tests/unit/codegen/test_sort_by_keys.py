"""Sorts by the digits of keys, topk by selection, places of extremes: ties, NaN, -0, types."""

from __future__ import annotations

import numpy as np
import pytest

import hloc
from tests.tolerance import bounds
from tests.unit.codegen.harness import Array, check_root, module_text, random_arrays

CANONICAL = """
less {{
  constant.zero = {0}[] constant(0)
  constant.nan = {0}[] constant(nan)
  x = {0}[] parameter(0)
  x.is_zero = pred[] compare(x, constant.zero), direction=EQ
  x.is_nan = pred[] compare(x, x), direction=NE
  x.one = {0}[] select(x.is_zero, constant.zero, x)
  x.key = {0}[] select(x.is_nan, constant.nan, x.one)
  y = {0}[] parameter(1)
  y.is_zero = pred[] compare(y, constant.zero), direction=EQ
  y.is_nan = pred[] compare(y, y), direction=NE
  y.one = {0}[] select(y.is_zero, constant.zero, y)
  y.key = {0}[] select(y.is_nan, constant.nan, y.one)
  {1}
  ROOT r = pred[] compare(x.key, y.key), direction=LT, type=TOTALORDER
}}"""


def _special_floats(size: int, dtype: type[np.floating]) -> Array:
    values = np.random.default_rng(1).standard_normal(size).astype(dtype)
    values[::7], values[1::7], values[2::7] = np.nan, 0, -0.0
    values[3::11], values[4::11] = np.inf, -np.inf
    return values


@pytest.mark.parametrize(("dtype", "kind"), [("f32", np.float32), ("f64", np.float64)])
@pytest.mark.parametrize("size", [200, 9000])
def test_zeros_are_equal_and_nan_comes_last(dtype: str, kind: type, size: int) -> None:
    """Equal elements keep their order, so the place tells -0 from 0 and one NaN from the next."""
    before = CANONICAL.format(dtype, "a = s32[] parameter(2)\n  b = s32[] parameter(3)")
    root = f"({dtype}[{size}], s32[{size}]) sort(p0, p1), dimensions={{0}}, to_apply=less"
    text = module_text([f"{dtype}[{size}]", f"s32[{size}]"], root, before)
    values = _special_floats(size, kind)
    found, places = check_root(text, [values, np.arange(size, dtype=np.int32)], **bounds("exact"))
    expected = np.argsort(values + 0, kind="stable")
    np.testing.assert_array_equal(places, expected)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(values[expected]))


@pytest.mark.parametrize("direction", ["LT", "GT"])
@pytest.mark.parametrize("dtype", ["s8", "u8", "s16", "u32", "s32", "s64", "u64", "pred", "s4"])
def test_integers_over_their_whole_range(dtype: str, direction: str) -> None:
    before = (
        f"less {{\n x = {dtype}[] parameter(0)\n y = {dtype}[] parameter(1)\n"
        f" ROOT r = pred[] compare(x, y), direction={direction}\n}}"
    )
    text = module_text(
        [f"{dtype}[3,300]"], f"{dtype}[3,300] sort(p0), dimensions={{1}}, to_apply=less", before
    )
    (values,) = random_arrays(text)
    if dtype not in ("pred", "s4"):
        limits = np.iinfo(values.dtype)
        values = np.random.default_rng(0).integers(
            limits.min, limits.max, (3, 300), values.dtype, endpoint=True
        )
    check_root(text, [values])


@pytest.mark.parametrize("shape", ["f32[4,100,3]", "f32[2,100,3]{0,2,1}"])
def test_two_keys_of_five_operands(shape: str) -> None:
    """More than 16 bytes an element: keys and places move, and the operands are fetched."""
    other = shape.replace("f32", "s32")
    before = """
less {
  x = s32[] parameter(0)
  y = s32[] parameter(1)
  a = f32[] parameter(2)
  b = f32[] parameter(3)
  c0 = f32[] parameter(4)
  c1 = f32[] parameter(5)
  d0 = f32[] parameter(6)
  d1 = f32[] parameter(7)
  e0 = f32[] parameter(8)
  e1 = f32[] parameter(9)
  first = pred[] compare(x, y), direction=LT
  same = pred[] compare(x, y), direction=EQ
  second = pred[] compare(a, b), direction=GT, type=TOTALORDER
  both = pred[] and(same, second)
  ROOT r = pred[] or(first, both)
}"""
    shapes = [other, shape, shape, shape, shape]
    root = f"({', '.join(shapes)}) sort(p0, p1, p2, p3, p4), dimensions={{1}}, to_apply=less"
    text = module_text(shapes, root, before)
    arrays = random_arrays(text)
    arrays[1] = np.round(arrays[1])
    check_root(text, arrays, **bounds("exact"))


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f64", "s32", "u8"])
@pytest.mark.parametrize("k", [1, 5, 25, 150, 400])
@pytest.mark.parametrize("largest", ["true", "false"])
def test_topk_selects_before_it_sorts(dtype: str, k: int, largest: str) -> None:
    root = f"({dtype}[3,{k}], s32[3,{k}]) topk(p0), k={k}, largest={largest}"
    text = module_text([f"{dtype}[3,400]"], root)
    (values,) = random_arrays(text)
    values[1] = values[1, 0]  # all are candidates
    if dtype == "f32":
        values[2] = _special_floats(400, np.float32)
    check_root(text, [values], **bounds("exact"))


ARG_EXTREMUM = """
best {{
  a = {0}[] parameter(0)
  i = s32[] parameter(1)
  c = {0}[] parameter(2)
  j = s32[] parameter(3)
  better = pred[] compare(a, c), direction={1}
  {2}
  same = pred[] compare(a, c), direction=EQ
  lower = pred[] compare(i, j), direction=LT
  tie = pred[] and(same, lower)
  left = pred[] or(wins, tie)
  value = {0}[] select(wins, a, c)
  place = s32[] select(left, i, j)
  ROOT r = ({0}[], s32[]) tuple(value, place)
}}
"""
NAN_WINS = "is_nan = pred[] compare(a, a), direction=NE\n  wins = pred[] or(better, is_nan)"
AS_IT_IS = "wins = pred[] and(better, better)"


def _arg_extremum(dtype: str, direction: str, nan: str, dims: str, start: str) -> str:
    return (
        "HloModule m\n"
        + ARG_EXTREMUM.format(dtype, direction, nan)
        + f"""
ENTRY e {{
  x = {dtype}[{dims}] parameter(0)
  places = s32[{dims}] iota(), iota_dimension=1
  start = {dtype}[] constant({start})
  zero = s32[] constant(0)
  ROOT r = ({dtype}[5], s32[5]) reduce(x, places, start, zero), dimensions={{1}}, to_apply=best
}}
"""
    )


@pytest.mark.parametrize("size", [1, 3, 255, 256, 257, 1000])
@pytest.mark.parametrize(("direction", "start"), [("GT", "-inf"), ("LT", "inf")])
def test_places_of_extremes(size: int, direction: str, start: str) -> None:
    """The first of equal ones, the first NaN before all, and -0 equal to 0."""
    module = hloc.parse(_arg_extremum("f32", direction, NAN_WINS, f"5,{size}", start))
    values = np.random.default_rng(size).integers(-9, 9, (5, size)).astype(np.float32)
    values[1, size // 2 :] = np.nan
    values[2] = float(start)
    values[3, ::2], values[3, 1::2] = 0, -0.0
    found, places = hloc.compile(module)(values)
    best = np.argmax if direction == "GT" else np.argmin
    np.testing.assert_array_equal(places, best(values, axis=1))
    np.testing.assert_array_equal(found, np.take_along_axis(values, places[:, None], 1)[:, 0])


@pytest.mark.parametrize("dtype", ["s32", "u8", "s64"])
def test_places_of_extreme_integers(dtype: str) -> None:
    module = hloc.parse(_arg_extremum(dtype, "LT", AS_IT_IS, "5,700", "100"))
    kind = {"s32": np.int32, "u8": np.uint8, "s64": np.int64}[dtype]
    values = np.random.default_rng(0).integers(0, 99, (5, 700)).astype(kind)
    found, places = hloc.compile(module)(values)
    np.testing.assert_array_equal(found, values.min(axis=1))
    np.testing.assert_array_equal(places, values.argmin(axis=1))


def test_a_reducer_that_loses_nan_is_run_as_it_is_written() -> None:
    """`wins` is false for a NaN on the left: no rule of the fast loop, so the slow one runs."""
    module = hloc.parse(_arg_extremum("f32", "GT", AS_IT_IS, "5,300", "-inf"))
    values = np.random.default_rng(0).standard_normal((5, 300)).astype(np.float32)
    values[0, 10] = np.nan
    found, places = hloc.compile(module)(values)
    assert places[0] == np.argmax(values[0, 11:]) + 11
    np.testing.assert_array_equal(places[1:], values[1:].argmax(axis=1))
    np.testing.assert_array_equal(found[1:], values[1:].max(axis=1))
