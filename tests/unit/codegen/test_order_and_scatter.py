"""sort, topk, scatter, rng-bit-generator."""

from __future__ import annotations

import numpy as np
import pytest

from hloc.codegen.cpu.emitters.movement.scatter import plan
from hloc.errors import HloError
from tests.tolerance import bounds
from tests.unit.codegen.harness import (
    check_root,
    module_text,
    parse_text,
    random_arrays,
    reducer,
    run_instruction,
)

LESS = """
less {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT r = pred[] compare(x, y), direction=LT
}"""
LESS_OF_PAIRS = """
less {
  x = s32[] parameter(0)
  y = s32[] parameter(1)
  a = f32[] parameter(2)
  b = f32[] parameter(3)
  ROOT r = pred[] compare(x, y), direction=LT
}"""


@pytest.mark.parametrize(
    ("shape", "dim"), [("f32[5,100]", 1), ("f32[50,3]", 0), ("f32[1,1000]", 1), ("f32[3,1]", 1)]
)
def test_sort(shape: str, dim: int) -> None:
    root = f"{shape} sort(p0), dimensions={{{dim}}}, to_apply=less"
    text = module_text([shape], root, LESS)
    check_root(text, random_arrays(text), **bounds("exact"))


def test_sort_of_pairs_is_stable() -> None:
    root = "(s32[5,1000], f32[5,1000]) sort(p0, p1), dimensions={1}, is_stable=true, to_apply=less"
    text = module_text(["s32[5,1000]", "f32[5,1000]"], root, LESS_OF_PAIRS)
    check_root(text, random_arrays(text), **bounds("exact"))


def test_sort_with_a_broken_order_keeps_the_elements() -> None:
    """NaN makes `less` inconsistent; the result may be any order, but of the same elements."""
    text = module_text(["f32[777]"], "f32[777] sort(p0), dimensions={0}, to_apply=less", LESS)
    values = np.random.default_rng(0).standard_normal(777).astype(np.float32)
    values[::5] = np.nan
    (found,) = run_instruction(parse_text(text).entry.root, [values])
    np.testing.assert_array_equal(np.sort(found), np.sort(values))


@pytest.mark.parametrize("largest", ["true", "false"])
@pytest.mark.parametrize("k", [1, 3, 8])
def test_topk_orders_nan_and_ties(k: int, largest: str) -> None:
    root = f"(f32[1,{k}], s32[1,{k}]) topk(p0), k={k}, largest={largest}"
    text = module_text(["f32[1,8]"], root)
    values = np.array([[2, 5, 5, 1, np.nan, -0.0, 0, 5]], np.float32)
    check_root(text, [values], **bounds("exact"))


@pytest.mark.parametrize("aliased", [(None,), (0,)])
def test_scatter_skips_windows_that_do_not_fit(aliased: tuple[int | None]) -> None:
    root = (
        "f32[10] scatter(p0, p1, p2), update_window_dims={1}, inserted_window_dims={}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add"
    )
    text = module_text(["f32[10]", "s32[4,1]", "f32[4,3]"], root, reducer("add", "add", "f32"))
    arrays = [
        np.zeros(10, np.float32),
        np.array([[-1], [1], [8], [7]], np.int32),
        np.ones((4, 3), np.float32),
    ]
    (found,) = check_root(text, arrays, aliased=aliased)
    np.testing.assert_array_equal(found, [0, 1, 1, 1, 0, 0, 0, 1, 1, 1])


def test_scatter_of_rows() -> None:
    root = (
        "f32[10,6] scatter(p0, p1, p2), update_window_dims={1}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add"
    )
    text = module_text(["f32[10,6]", "s32[4]", "f32[4,6]"], root, reducer("add", "add", "f32"))
    check_root(text, random_arrays(text))


@pytest.mark.parametrize("rows_hit", [1, 50])
@pytest.mark.parametrize("aliased", [(None,), (0,)])
def test_sums_of_many_rows_are_in_f64_only_if_many_meet(
    rows_hit: int, aliased: tuple[int | None]
) -> None:
    """5,000 rows in each element, or 100, which are a chain in f32."""
    root = (
        "f32[60,8] scatter(p0, p1, p2), update_window_dims={1}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add"
    )
    shapes = ["f32[60,8]", "s32[5000,1]", "f32[5000,8]"]
    instruction = parse_text(module_text(shapes, root, reducer("add", "add", "f32"))).entry.root
    random = np.random.default_rng(0)
    operand, updates = random.random((60, 8), np.float32), random.random((5000, 8), np.float32)
    places = (np.arange(5000, dtype=np.int32) % rows_hit)[:, None]
    places[::1000] = 60  # out of bounds
    total = operand.astype(np.float64 if rows_hit == 1 else np.float32)
    inside = places[:, 0] < 60
    np.add.at(total, places[inside, 0], updates[inside])
    (found,) = run_instruction(instruction, [operand.copy(), places, updates], aliased=aliased)
    np.testing.assert_array_equal(found, total.astype(np.float32))


def test_updates_of_different_elements_need_no_totals() -> None:
    root = (
        "f32[9000] scatter(p0, p1, p2), update_window_dims={}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, unique_indices=true, to_apply=add"
    )
    text = module_text(
        ["f32[9000]", "s32[5000,1]", "f32[5000]"], root, reducer("add", "add", "f32")
    )
    values, _, new = random_arrays(text)
    places = np.random.default_rng(0).permutation(9000)[:5000, None].astype(np.int32)
    check_root(text, [values, places, new], **bounds("exact"))
    kernel = plan(parse_text(text).entry.root)
    assert kernel is not None
    assert kernel.scratch_bytes == 0


@pytest.mark.parametrize(
    ("operand", "updates", "window_dims"),
    [
        ("f32[9,5,4,3]", "f32[7,5,4,3]", "1,2,3"),
        ("f32[9,5,4,3]{0,3,2,1}", "f32[7,5,4,3]", "1,2,3"),
        ("f32[9,5,4,3]", "f32[7,5,4,3]{1,2,3,0}", "1,2,3"),
        ("f32[9,5,4,3]{1,2,3,0}", "f32[7,5,4,3]{1,2,3,0}", "1,2,3"),
        ("f32[9,5,6,3]", "f32[7,5,4,3]", "1,2,3"),
        ("f32[9,8,4,3]", "f32[7,5,4,3]", "1,2,3"),
        ("f32[9,5,4,3]", "f32[5000,5,4,3]", "1,2,3"),
        ("f32[9,5,4,3]{1,2,3,0}", "f32[5000,5,4,3]{1,2,3,0}", "1,2,3"),
        ("f32[9,5,4,3]", "f32[5,4,3,7]", "0,1,2"),
    ],
)
def test_dimensions_of_windows_that_lie_side_by_side(
    operand: str, updates: str, window_dims: str
) -> None:
    """They are one loop where the arrays agree; long sums are in an array of another layout."""
    count = max(int(size) for size in updates[4 : updates.index("]")].split(","))
    root = (
        f"{operand} scatter(p0, p1, p2), update_window_dims={{{window_dims}}}, "
        "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=f"
    )
    shapes = [operand, f"s32[{count},1]", updates]
    text = module_text(shapes, root, reducer("f", "add", "f32"))
    values, _, new = random_arrays(text)
    places = np.random.default_rng(0).integers(-1, 10, (count, 1)).astype(np.int32)
    check_root(text, [values, places, new], **bounds("f32 sum"))


# An odd number of elements, an even one in several dimensions, and one; then the first two again.
@pytest.mark.parametrize(
    "dims", ["5", "2,7,3", "", *(pytest.param(d, marks=pytest.mark.slow) for d in ("3,5", "6,4"))]
)
@pytest.mark.parametrize("dtype", ["u8", "u16", "u32", "u64"])
@pytest.mark.parametrize(
    ("algorithm", "words"), [("rng_three_fry", 2), ("rng_philox", 2), ("rng_philox", 3)]
)
def test_random_bits(algorithm: str, words: int, dtype: str, dims: str) -> None:
    root = f"(u64[{words}], {dtype}[{dims}]) rng-bit-generator(p0), algorithm={algorithm}"
    text = module_text([f"u64[{words}]"], root)
    state = np.array([2**63 + 5, 2**64 - 2, 7][:words], np.uint64)
    check_root(text, [state], level=1)


def test_random_bits_without_state() -> None:
    """An old form returns the bits alone."""
    text = module_text(["u64[2]"], "u32[6,4] rng-bit-generator(p0), algorithm=rng_default")
    try:
        inst = parse_text(text).entry.root
    except HloError:
        pytest.skip("the form is not read")
    pair = module_text(
        ["u64[2]"], "(u64[2], u32[6,4]) rng-bit-generator(p0), algorithm=rng_default"
    )
    state = np.array([3, 4], np.uint64)
    (found,) = run_instruction(inst, [state])
    np.testing.assert_array_equal(found, check_root(pair, [state])[1])
