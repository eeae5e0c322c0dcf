"""gather clamps, scatter skips; batching dimensions, several operands, any combiner."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hloc.errors import HloError
from tests.unit.ops.programs import ADD, f32, run, s32

X = f32(range(10))
GATHER = (
    "x = f32[10] parameter(0) i = {0}[{1}] parameter(1) ROOT g = gather(x, i), offset_dims={{1}}, "
    "collapsed_slice_dims={{}}, start_index_map={{0}}, index_vector_dim=1, slice_sizes={{3}}"
)
SCATTER = (
    "x = f32[{0}] parameter(0) i = s32[{1}] parameter(1) u = f32[{1},{2}] parameter(2) "
    "ROOT s = scatter(x, i, u), update_window_dims={{1}}, inserted_window_dims={{}}, "
    "scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply={3}"
)


def test_gather_clamps_start_indices() -> None:
    (result,) = run(GATHER.format("s32", 3), X, s32([-3, 2, 99]))
    assert result.tolist() == [[0, 1, 2], [2, 3, 4], [7, 8, 9]]


@pytest.mark.parametrize(("dtype", "index"), [("u8", 250), ("u64", 2**64 - 1)])
def test_gather_clamps_large_unsigned_indices_high(dtype: str, index: int) -> None:
    (result,) = run(
        GATHER.format(dtype, 1), X, np.array([index], {"u8": np.uint8, "u64": np.uint64}[dtype])
    )
    assert result.tolist() == [[7, 8, 9]]


def test_gather_with_batching_dimensions_takes_from_its_own_row() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    (result,) = run(
        "x = f32[3,4] parameter(0) i = s32[2,3,1] parameter(1) ROOT g = gather(x, i), "
        "offset_dims={}, collapsed_slice_dims={1}, start_index_map={1}, "
        "operand_batching_dims={0}, start_indices_batching_dims={1}, index_vector_dim=2, "
        "slice_sizes={1,1}",
        x,
        s32([[[0], [1], [2]], [[3], [3], [3]]]),
    )
    assert result.tolist() == [[0, 5, 10], [3, 7, 11]]


def test_scatter_skips_a_window_that_is_partly_out_of_bounds() -> None:
    (result,) = run(
        SCATTER.format(10, 4, 3, "add"),
        np.zeros(10, np.float32),
        s32([-1, 1, 8, 7]),
        np.ones((4, 3), np.float32),
        called=ADD,
    )
    assert result.tolist() == [0, 1, 1, 1, 0, 0, 0, 1, 1, 1]


def test_scatter_calls_with_current_value_first_and_in_order() -> None:
    called = (
        "f { a = f32[] parameter(0) b = f32[] parameter(1) h = f32[] constant(10) "
        "c = f32[] multiply(a, h) ROOT r = f32[] add(c, b) }"
    )
    (result,) = run(
        SCATTER.format(2, 3, 1, "f"), f32([0, 5]), s32([0, 0, 0]), f32([[1], [2], [3]]),
        called=called,
    )  # fmt: skip
    assert result.tolist() == [123, 5]


def test_scatter_that_overwrites_keeps_the_last_update() -> None:
    called = "f { a = f32[] parameter(0) ROOT b = f32[] parameter(1) }"
    (result,) = run(
        SCATTER.format(2, 3, 1, "f"), f32([0, 5]), s32([1, 1, 0]), f32([[1], [2], [3]]),
        called=called,
    )  # fmt: skip
    assert result.tolist() == [3, 2]


def test_scatter_of_two_operands_gives_a_tuple() -> None:
    called = (
        "f { a = f32[] parameter(0) b = s32[] parameter(1) c = f32[] parameter(2) "
        "d = s32[] parameter(3) x = f32[] add(a, c) y = s32[] multiply(b, d) "
        "ROOT t = tuple(x, y) }"
    )
    floats, integers = run(
        "x = f32[2] parameter(0) y = s32[2] parameter(1) i = s32[3] parameter(2) "
        "u = f32[3] parameter(3) v = s32[3] parameter(4) ROOT s = scatter(x, y, i, u, v), "
        "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
        "index_vector_dim=1, to_apply=f",
        f32([0, 0]),
        s32([1, 1]),
        s32([1, 1, 5]),
        f32([1, 2, 3]),
        s32([2, 3, 4]),
        called=called,
    )
    assert floats.tolist() == [0, 3]
    assert integers.tolist() == [1, 6]


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-2, 6), st.integers(-100, 100)), min_size=1, max_size=30),
    st.sampled_from(["add", "multiply", "maximum"]),
)
def test_scatter_is_one_update_after_the_other(
    updates: list[tuple[int, int]], operation: str
) -> None:
    called = f"f {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = {operation}(a, b) }}"
    expected = np.ones(5, np.float32)
    function = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum}[operation]
    for index, value in updates:
        if 0 <= index < 5:
            with np.errstate(over="ignore"):
                expected[index] = function(expected[index], np.float32(value))
    (result,) = run(
        SCATTER.format(5, len(updates), 1, "f"),
        np.ones(5, np.float32),
        s32([index for index, _ in updates]),
        f32([[value] for _, value in updates]),
        called=called,
    )
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ("offset_dims={0}, collapsed_slice_dims={}, slice_sizes={3,2}", "offset_dims has 1"),
        ("offset_dims={1,0}, collapsed_slice_dims={}, slice_sizes={3,2}", "must ascend"),
        ("offset_dims={1}, collapsed_slice_dims={1}, slice_sizes={3,2}", "has slice size 2"),
        ("offset_dims={1}, collapsed_slice_dims={1}, slice_sizes={9,1}", "slice size 9 is out"),
    ],
)
def test_a_gather_that_does_not_fit_is_refused(attributes: str, message: str) -> None:
    with pytest.raises(HloError, match=message):
        run(
            "x = f32[4,2] parameter(0) i = s32[5] parameter(1) ROOT g = gather(x, i), "
            f"{attributes}, start_index_map={{0}}, index_vector_dim=1"
        )


def test_a_scatter_window_larger_than_the_operand_is_refused() -> None:
    with pytest.raises(HloError, match=r"window size 3 .* exceeds dimension 0"):
        run(SCATTER.format(2, 1, 3, "add"), called=ADD)
