"""Reductions of rows, columns and mixtures, in one and several results."""

from __future__ import annotations

import numpy as np
import pytest

from hloc.codegen.kernels.extremum import extremum_of
from hloc.dtypes import DTYPES
from tests.tolerance import bounds
from tests.unit.codegen.harness import (
    check_root,
    module_text,
    parse_text,
    random_arrays,
    reducer,
    run_instruction,
)

SHAPES = [
    ("f32[33,100]", "f32[33]", "1"),
    ("f32[3,5000]", "f32[3]", "1"),
    ("f32[33,300]", "f32[300]", "0"),
    ("f32[3333,30]", "f32[30]", "0"),
    ("f32[3,5,7,9]", "f32[3,7]", "1,3"),
    ("f32[3,5,7,9]", "f32[5,9]{0,1}", "0,2"),
    ("f32[3,5,7,9]{0,1,2,3}", "f32[5,9]", "0,2"),
    ("f32[3,5,7,9]", "f32[]", "0,1,2,3"),
    ("f32[3,0]", "f32[3]", "1"),
    ("f32[3,2]", "f32[3,2]", ""),
    ("f32[1,1]", "f32[]", "0,1"),
]


@pytest.mark.parametrize("pieces", [1, 2])
@pytest.mark.parametrize(("source", "result", "dims"), SHAPES)
def test_sum(source: str, result: str, dims: str, pieces: int) -> None:
    root = f"{result} reduce(p0, p1), dimensions={{{dims}}}, to_apply=add"
    text = module_text([source, "f32[]"], root, reducer("add", "add", "f32"))
    check_root(text, random_arrays(text), **bounds("f32 sum"), pieces=pieces)


@pytest.mark.parametrize(
    ("opcode", "dtype", "rtol"),
    [
        ("maximum", "f32", 0),
        ("minimum", "bf16", 0),
        ("multiply", "f64", 1e-12),
        ("maximum", "s32", 0),
        ("add", "u8", 0),
        ("and", "pred", 0),
        ("xor", "s64", 0),
        ("add", "c64", 1e-4),
        ("add", "bf16", 0.02),
        ("add", "f16", 0.02),
        ("subtract", "f32", 1e-4),
    ],
)
@pytest.mark.parametrize(("result", "dims"), [("30", "1"), ("40", "0")])
def test_reducers(opcode: str, dtype: str, rtol: float, result: str, dims: str) -> None:
    root = f"{dtype}[{result}] reduce(p0, p1), dimensions={{{dims}}}, to_apply=f"
    text = module_text([f"{dtype}[30,40]", f"{dtype}[]"], root, reducer("f", opcode, dtype))
    check_root(text, random_arrays(text), rtol=rtol, atol=rtol * 4)


@pytest.mark.parametrize("opcode", ["add", "maximum", "multiply"])
@pytest.mark.parametrize("shape", ["f32[18,1030]", "f32[3,67,20]", "f32[1100,5]", "s32[33,9]"])
def test_columns_some_rows_at_a_time(opcode: str, shape: str) -> None:
    """Rows that are left over, strips that are, and blocks of long sums."""
    dtype, dims = shape.rstrip("]").split("[")
    sizes = dims.split(",")
    result = f"{dtype}[{','.join(sizes[:-2] + sizes[-1:])}]"
    root = f"{result} reduce(p0, p1), dimensions={{{len(sizes) - 2}}}, to_apply=f"
    text = module_text([shape, f"{dtype}[]"], root, reducer("f", opcode, dtype))
    values, start = random_arrays(text)
    values = values.reshape(-1)
    values[::5] = 1
    values = values.reshape([int(size) for size in sizes])
    if dtype == "f32":
        values = np.clip(values, -1.5, 1.5)
        if opcode == "maximum":
            values[..., 2, 1] = np.nan
    check_root(text, [values, start], **bounds("f32 sum"))


ARGMAX = """
argmax {
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  first = pred[] compare(a, b), direction=GE
  value = f32[] select(first, a, b)
  place = s32[] select(first, i, j)
  ROOT both = (f32[], s32[]) tuple(value, place)
}"""


@pytest.mark.parametrize(
    ("source", "result", "dims"),
    [
        ("[2,7,50]", "[7,50]", "0"),
        ("[3,400]", "[400]", "0"),
        ("[6,4,21]", "[6,21]", "1"),
        ("[5,90]", "[90]", "0"),
        ("[2,9,2,40]", "[9,40]", "0,2"),
        ("[40,9,3]{1,0,2}", "[40,9]", "2"),
    ],
)
@pytest.mark.parametrize(("opcode", "dtype"), [("add", "f32"), ("maximum", "bf16")])
def test_work_on_short_columns(
    opcode: str, dtype: str, source: str, result: str, dims: str
) -> None:
    """Work on the elements before their sum, which is done in registers if columns are short."""
    body = f"""work {{
  x = {dtype}{source} parameter(0)
  z = {dtype}[] parameter(1)
  y = {dtype}{source} negate(x)
  ROOT r = {dtype}{result} reduce(y, z), dimensions={{{dims}}}, to_apply=f
}}"""
    root = f"{dtype}{result} fusion(p0, p1), kind=kInput, calls=work"
    computations = reducer("f", opcode, dtype) + "\n" + body
    text = module_text([f"{dtype}{source}", f"{dtype}[]"], root, computations)
    limits = bounds("f32 sum") if opcode == "add" else {"rtol": 0, "atol": 0}
    check_root(text, random_arrays(text), **limits)


@pytest.mark.parametrize(("size", "dims"), [("30", "1"), ("40", "0")])
def test_several_results(size: str, dims: str) -> None:
    root = (
        f"(f32[{size}], s32[{size}]) reduce(p0, p1, p2, p3), dimensions={{{dims}}}, to_apply=argmax"
    )
    text = module_text(["f32[30,40]", "s32[30,40]", "f32[]", "s32[]"], root, ARGMAX)
    check_root(text, random_arrays(text), **bounds("exact"))


FIRST_LARGEST = """
argmax {{
  a = {dtype}[] parameter(0)
  i = s32[] parameter(1)
  b = {dtype}[] parameter(2)
  j = s32[] parameter(3)
  value = {dtype}[] maximum(a, b)
  larger = pred[] compare(a, b), direction=GT
  equal = pred[] compare(a, b), direction=EQ
  earlier = pred[] compare(i, j), direction=LT
  tie = pred[] and(equal, earlier)
  first = pred[] or(larger, tie)
  place = s32[] select(first, i, j)
  ROOT both = ({dtype}[], s32[]) tuple(value, place)
}}
rows {{
  x = {dtype}[{rows},{size}] parameter(0)
  i = s32[{rows},{size}] iota(), iota_dimension=1
  low = {dtype}[] constant(0)
  zero = s32[] constant(0)
  ROOT r = ({dtype}[{rows}], s32[{rows}]) reduce(x, i, low, zero), dimensions={{1}}, to_apply=argmax
}}"""


@pytest.mark.parametrize("size", [2, 5, 7, 8, 13, 24, 25, 300])
@pytest.mark.parametrize("dtype", ["s32", "u8", "s64"])
def test_the_first_largest_integer_of_rows(dtype: str, size: int) -> None:
    """The reducer as passes leave it: a comparison and a selection became a maximum."""
    rows = 67
    before = FIRST_LARGEST.format(dtype=dtype, rows=rows, size=size)
    root = f"({dtype}[{rows}], s32[{rows}]) fusion(p0), kind=kInput, calls=rows"
    text = module_text([f"{dtype}[{rows},{size}]"], root, before)
    assert extremum_of(parse_text(text).entry.root.called[0].root) == "maximum"
    values = np.random.default_rng(0).integers(0, 5, (rows, size))
    check_root(text, [values.astype(DTYPES[dtype].numpy)], **bounds("exact"))


@pytest.mark.parametrize("size", [5, 7, 12, 24])
def test_short_rows_side_by_side(size: int) -> None:
    root = "(f32[67], s32[67]) reduce(p0, p1, p2, p3), dimensions={1}, to_apply=argmax"
    shapes = [f"f32[67,{size}]", f"s32[67,{size}]", "f32[]", "s32[]"]
    text = module_text(shapes, root, ARGMAX)
    check_root(text, random_arrays(text), **bounds("exact"))


@pytest.mark.parametrize("dims", [(1, 1 << 22), (1 << 22, 1)])
def test_sums_of_many_stay_accurate(dims: tuple[int, int]) -> None:
    """Plain f32 accumulation of 0.1 is off by per cent here."""
    root = f"f32[1] reduce(p0, p1), dimensions={{{int(dims[1] != 1)}}}, to_apply=add"
    text = module_text([f"f32[{dims[0]},{dims[1]}]", "f32[]"], root, reducer("add", "add", "f32"))
    inst = parse_text(text).entry.root
    (found,) = run_instruction(inst, [np.full(dims, 0.1, np.float32), np.zeros((), np.float32)])
    assert found[0] == pytest.approx(np.float32(0.1).astype(np.float64) * (1 << 22), rel=1e-6)


def test_reduce_window() -> None:
    root = "f32[5,17] reduce-window(p0, p1), window={size=3x2 stride=2x1 pad=1_1x1_1}, to_apply=add"
    text = module_text(["f32[10,16]", "f32[]"], root, reducer("add", "add", "f32"))
    check_root(text, random_arrays(text))


def test_select_and_scatter() -> None:
    before = (
        reducer("add", "add", "f32")
        + """
ge {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT r = pred[] compare(x, y), direction=GE
}"""
    )
    root = (
        "f32[2,9,8] select-and-scatter(p0, p1, p2), "
        "window={size=1x3x3 stride=1x2x2 pad=0_0x0_0x1_0}, select=ge, scatter=add"
    )
    text = module_text(["f32[2,9,8]", "f32[2,4,4]", "f32[]"], root, before)
    check_root(text, random_arrays(text))
