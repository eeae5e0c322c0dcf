"""reduce, map, scan, reduce-window, select-and-scatter: semantics and refused shapes.

Vectors were measured with XLA (system reference, 4.2).
"""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hloc.errors import HloError
from tests.unit.ops.programs import ADD, f32, run, s32

TWO = "{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] "


def test_reduce_starts_from_init_once() -> None:
    entry = "p = f32[10] parameter(0) z = f32[] constant(100) ROOT r = reduce(p, z), {}"
    (result,) = run(entry.format("dimensions={0}, to_apply=add"), f32(range(10)), called=ADD)
    assert result == 145


def test_reduce_of_nothing_is_init() -> None:
    entry = "p = f32[3,0] parameter(0) z = f32[] constant(7) ROOT r = reduce(p, z), "
    (result,) = run(entry + "dimensions={1}, to_apply=add", np.zeros((3, 0), "f4"), called=ADD)
    assert result.tolist() == [7, 7, 7]


def test_reduce_passes_the_accumulator_first() -> None:
    entry = "p = f32[3] parameter(0) z = f32[] constant(10) ROOT r = reduce(p, z), "
    entry += "dimensions={0}, to_apply=f"
    (result,) = run(entry, f32([1, 2, 3]), called=f"f {TWO} subtract(a, b) }}")
    assert result == 4
    (result,) = run(entry, f32([1, 2, 3]), called=f"f {TWO} subtract(b, a) }}")
    assert result == -8


def test_reduce_sums_bf16_without_losing_small_terms() -> None:
    called = "f { a = bf16[] parameter(0) b = bf16[] parameter(1) ROOT c = bf16[] add(a, b) }"
    entry = "p = bf16[4096] parameter(0) z = bf16[] constant(0) ROOT r = reduce(p, z), "
    (result,) = run(
        entry + "dimensions={0}, to_apply=f", np.ones(4096, ml_dtypes.bfloat16), called=called
    )
    assert float(result) == 4096


def test_reduce_finds_maximum_and_its_index() -> None:
    called = (
        "f { a = f32[] parameter(0) i = s32[] parameter(1) b = f32[] parameter(2) "
        "j = s32[] parameter(3) g = pred[] compare(a, b), direction=GE v = select(g, a, b) "
        "k = select(g, i, j) ROOT t = tuple(v, k) }"
    )
    entry = (
        "x = f32[2,5000] parameter(0) i = s32[2,5000] iota(), iota_dimension=1 "
        "z = f32[] constant(-inf) n = s32[] constant(0) "
        "ROOT r = reduce(x, i, z, n), dimensions={1}, to_apply=f"
    )
    x = np.random.default_rng(0).standard_normal((2, 5000)).astype(np.float32)
    values, indices = run(entry, x, called=called)
    assert (indices == x.argmax(1)).all()
    assert (values == x.max(1)).all()


def test_a_reducer_with_control_flow_is_applied_element_by_element() -> None:
    called = (
        "big { x = f32[] parameter(0) h = f32[] constant(100) ROOT y = f32[] add(x, h) }\n"
        "small { ROOT x = f32[] parameter(0) }\n"
        "f { a = f32[] parameter(0) b = f32[] parameter(1) s = f32[] add(a, b) "
        "t = f32[] constant(2) p = pred[] compare(b, t), direction=GT "
        "ROOT c = f32[] conditional(p, s, s), true_computation=big, false_computation=small }"
    )
    entry = "p = f32[2,2] parameter(0) z = f32[] constant(0) ROOT r = reduce(p, z), "
    (result,) = run(entry + "dimensions={1}, to_apply=f", f32([[1, 2], [3, 4]]), called=called)
    assert result.tolist() == [3, 207]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("r = reduce(p, z), dimensions={2}, to_apply=add", "dimension 2 is out of range"),
        ("r = reduce(p, z), dimensions={0,0}, to_apply=add", "names a dimension twice"),
        ("r = reduce(p, p), dimensions={0}, to_apply=add", r"init value 0 must be a scalar"),
        ("r = reduce(q, z), dimensions={0}, to_apply=add", r"parameter 1 .* s32\[\] is passed"),
        ("r = reduce-window(p, z), window={size=2}, to_apply=add", "window has 1 dimensions"),
        ("r = map(p, q), dimensions={0}, to_apply=add", r"operand 1 has shape s32\[4\]"),
        ("r = map(p), dimensions={0,1}, to_apply=add", "takes 2 parameters, but 1 arguments"),
    ],
)
def test_a_wrong_reduction_is_refused(entry: str, message: str) -> None:
    text = f"p = f32[4,2] parameter(0) q = s32[4] parameter(1) z = f32[] constant(0) ROOT {entry}"
    with pytest.raises(HloError, match=message):
        run(text, called=ADD)


def test_map_applies_the_computation_to_every_element() -> None:
    (result,) = run(
        "x = f32[2] parameter(0) y = f32[2] parameter(1) "
        "ROOT r = map(x, y), dimensions={0}, to_apply=f",
        f32([1, 2]),
        f32([2, 4]),
        called=f"f {TWO} subtract(a, b) }}",
    )
    assert result.tolist() == [-1, -2]


@pytest.mark.parametrize(("reverse", "sums"), [("false", [1, 3, 6]), ("true", [6, 5, 3])])
def test_scan_carries_along_one_dimension(reverse: str, sums: list[int]) -> None:
    called = (
        "f { c = f32[] parameter(0) x = f32[] parameter(1) s = add(c, x) ROOT t = tuple(s, s) }"
    )
    entry = (
        "x = f32[3] parameter(0) z = f32[] constant(0) ROOT r = scan(x, z), dimensions={0}, "
        f"num_carries=1, is_reverse={reverse}, to_apply=f"
    )
    outputs, carry = run(entry, f32([1, 2, 3]), called=called)
    assert outputs.tolist() == sums
    assert carry == 6


@pytest.mark.parametrize(
    ("x", "init", "window", "expected"),
    [
        ([1, 1, 1, 1], 100, "size=2 pad=1_1", [101, 102, 102, 102, 101]),
        ([1, 2, 3], 0, "size=2 lhs_dilate=2", [1, 2, 2, 3]),
        ([1, 2, 3, 4], 0, "size=2 pad=-1_0", [5, 7]),
        ([1, 2, 3, 4, 5], 0, "size=2 rhs_dilate=3 stride=1", [5, 7]),
        ([1, 2], 0, "size=3", []),
    ],
)
@pytest.mark.parametrize("body", ["add(a, b)", "subtract(a, m)"])
def test_reduce_window_skips_padding_and_holes(
    x: list[int], init: int, window: str, expected: list[int], body: str
) -> None:
    # a - (-b) is a + b, but is not recognised as a sum: both ways must agree.
    called = (
        "f { a = f32[] parameter(0) b = f32[] parameter(1) m = f32[] negate(b) "
        f"ROOT c = f32[] {body} }}"
    )
    (result,) = run(
        f"p = f32[{len(x)}] parameter(0) z = f32[] constant({init}) "
        f"ROOT r = reduce-window(p, z), window={{{window}}}, to_apply=f",
        f32(x),
        called=called,
    )
    assert result.tolist() == expected


@pytest.mark.parametrize(
    ("x", "direction", "init", "expected"),
    [
        ([1, 1, 5, 5], "GE", 0, [10, 0, 20, 0]),
        ([1, 1, 5, 5], "GT", 0, [0, 10, 0, 20]),
        ([1, 1, 5, 5], "GE", 7, [17, 7, 27, 7]),
        ([np.nan, 1, 5, 5], "GE", 0, [0, 10, 20, 0]),
    ],
)
def test_select_and_scatter_adds_where_the_window_selects(
    x: list[float], direction: str, init: int, expected: list[int]
) -> None:
    called = f"ge {TWO.replace('ROOT c = f32[]', '')} ROOT c = pred[] compare(a, b), "
    called += f"direction={direction} }}\n" + ADD
    (result,) = run(
        f"p = f32[4] parameter(0) s = f32[2] parameter(1) z = f32[] constant({init}) ROOT r = "
        "select-and-scatter(p, s, z), window={size=2 stride=2}, select=ge, scatter=add",
        f32(x),
        f32([10, 20]),
        called=called,
    )
    assert result.tolist() == expected


@settings(max_examples=30, deadline=None)
@given(
    values=st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=40),
    op=st.sampled_from(["add", "multiply", "minimum", "maximum", "and", "or", "xor"]),
)
def test_recognised_reducers_agree_with_a_plain_fold(values: list[int], op: str) -> None:
    plain = f"f {{ a = s32[] parameter(0) b = s32[] parameter(1) ROOT c = s32[] {op}(a, b) }}"
    hidden = plain.replace(f"ROOT c = s32[] {op}(a, b)", f"d = s32[] {op}(a, b) ROOT c = copy(d)")
    entry = f"p = s32[{len(values)}] parameter(0) z = s32[] constant(5) ROOT r = reduce(p, z), "
    entry += "dimensions={0}, to_apply=f"
    assert run(entry, s32(values), called=plain) == run(entry, s32(values), called=hidden)
