"""Instructions that move elements, in any layout, against the evaluator."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tolerance import bounds
from tests.unit.codegen.harness import (
    Array,
    check_root,
    emit,
    module_text,
    parse_text,
    random_arrays,
)

CASES = {
    "transpose": (["f32[3,5,7]"], "f32[7,3,5] transpose(p0), dimensions={2,0,1}"),
    "copy-to-layout": (["f32[3,5,7]"], "f32[3,5,7]{0,2,1} copy(p0)"),
    "copy-c64": (["c64[3,5]{0,1}"], "c64[3,5] copy(p0)"),
    "reshape": (["f32[3,4,7]"], "f32[2,6,7] reshape(p0)"),
    "reshape-of-layout": (["f32[3,4,7]{0,1,2}"], "f32[2,42] reshape(p0)"),
    "reshape-to-scalar": (["s32[1,1]"], "s32[] reshape(p0)"),
    "broadcast": (["f32[3,4]"], "f32[3,5,4] broadcast(p0), dimensions={0,2}"),
    "broadcast-scalar": (["pred[]"], "pred[3,5] broadcast(p0), dimensions={}"),
    "slice": (["f32[9,11]"], "f32[3,4] slice(p0), slice={[1:7:2],[2:10:2]}"),
    "reverse": (["s8[9,11]"], "s8[9,11] reverse(p0), dimensions={1}"),
    "concatenate": (
        ["bf16[2,3]", "bf16[2,4]", "bf16[2,0]", "bf16[2,1]"],
        "bf16[2,8] concatenate(p0, p1, p2, p3), dimensions={1}",
    ),
    "pad": (["f32[4,5]", "f32[]"], "f32[10,6] pad(p0, p1), padding=1_-1_2x2_-1"),
    "pad-nothing": (["f32[0]", "f32[]"], "f32[4] pad(p0, p1), padding=1_3"),
    "iota": ([], "bf16[4,300] iota(), iota_dimension=1"),
    "gather-rows": (
        ["f32[8,9]", "s32[5,1]"],
        "f32[5,9] gather(p0, p1), offset_dims={1}, collapsed_slice_dims={0}, "
        "start_index_map={0}, index_vector_dim=1, slice_sizes={1,9}",
    ),
    "gather-windows": (
        ["f32[8,9]", "u8[5,2]"],
        "f32[5,2,3] gather(p0, p1), offset_dims={1,2}, collapsed_slice_dims={}, "
        "start_index_map={1,0}, index_vector_dim=1, slice_sizes={2,3}",
    ),
    "bitcast-convert-narrower": (["f32[5]"], "u8[5,4] bitcast-convert(p0)"),
    "bitcast-convert-wider": (["u8[5,4]"], "s32[5] bitcast-convert(p0)"),
    "bitcast-convert-pred": (["pred[5]"], "s8[5] bitcast-convert(p0)"),
    "bitcast-convert-s4": (["s4[6,2]"], "s8[6] bitcast-convert(p0)"),
}


@pytest.mark.parametrize("name", CASES)
def test_moves_elements(name: str) -> None:
    parameters, root = CASES[name]
    text = module_text(parameters, root)
    check_root(text, random_arrays(text), **bounds("exact"))


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_pad(data: st.DataObject) -> None:
    """Any padding around and between the elements, in parts as threads have them."""
    rank = data.draw(st.integers(1, 3))
    dims = data.draw(st.lists(st.sampled_from([1, 2, 5, 16, 33]), min_size=rank, max_size=rank))
    amounts = st.tuples(st.sampled_from([0, 1, 3, 20]), st.sampled_from([0, 1, 17]))
    padding = [(*data.draw(amounts), data.draw(st.sampled_from([0, 0, 1, 2]))) for _ in range(rank)]
    sizes = [n + p[0] + p[1] + (n - 1) * p[2] for n, p in zip(dims, padding, strict=True)]
    dtype = data.draw(st.sampled_from(["f32", "f64", "bf16", "s8", "c64", "pred"]))
    orders = (data.draw(st.permutations(range(rank))) for _ in range(2))
    layout, other = (",".join(map(str, order)) for order in orders)
    source = f"{dtype}[{','.join(map(str, dims))}]{{{layout}}}"
    target = f"{dtype}[{','.join(map(str, sizes))}]{{{other}}}"
    written = "x".join("_".join(map(str, p)) for p in padding)
    text = module_text([source, f"{dtype}[]"], f"{target} pad(p0, p1), padding={written}")
    check_root(text, random_arrays(text), pieces=data.draw(st.integers(1, 3)))


def _at(*indices: int) -> list[Array]:
    return [np.array(i, np.int32) for i in indices]


@pytest.mark.parametrize(("row", "column"), [(0, 0), (7, 3), (-5, 99), (2, 4)])
def test_dynamic_slice_clamps(row: int, column: int) -> None:
    root = "f32[3,5] dynamic-slice(p0, p1, p2), dynamic_slice_sizes={3,5}"
    text = module_text(["f32[8,9]", "s32[]", "s32[]"], root)
    check_root(text, [random_arrays(text)[0], *_at(row, column)])


@pytest.mark.parametrize("aliased", [(None,), (0,)])
@pytest.mark.parametrize(("row", "column"), [(0, 0), (7, -3), (3, 99)])
def test_dynamic_update_slice(aliased: tuple[int | None], row: int, column: int) -> None:
    text = module_text(
        ["f32[8,9]", "f32[2,3]", "s32[]", "s32[]"],
        "f32[8,9] dynamic-update-slice(p0, p1, p2, p3)",
    )
    arrays = [*random_arrays(text)[:2], *_at(row, column)]
    check_root(text, arrays, aliased=aliased)


@pytest.mark.parametrize("pieces", [2, 3, 8])
@pytest.mark.parametrize(("row", "column"), [(0, 0), (7, -3), (3, 99), (5, 4)])
@pytest.mark.parametrize("layouts", [("", ""), ("{0,1}", "{0,1}"), ("{0,1}", "")])
def test_threads_copy_the_operand_of_an_update(
    pieces: int, row: int, column: int, layouts: tuple[str, str]
) -> None:
    operand, update = layouts
    for size in ("4,3", "1,3", "4,1", "1,1"):
        text = module_text(
            [f"f32[8,9]{operand}", f"f32[{size}]{update}", "s32[]", "s32[]"],
            f"f32[8,9]{operand} dynamic-update-slice(p0, p1, p2, p3)",
        )
        root = parse_text(text).entry.root
        arrays = [*random_arrays(text)[:2], *_at(row, column)]
        check_root(text, arrays, pieces=min(pieces, emit(root).extent))


@pytest.mark.parametrize("pieces", [1, 2, 3, 7])
@pytest.mark.parametrize("rows", [(300, 400), (1, 699), (699, 1), (200, 0, 300, 1, 199)])
@pytest.mark.parametrize("end", ["100]", "50,2]", "100]{0,1}"])
def test_threads_share_what_is_joined(pieces: int, rows: tuple[int, ...], end: str) -> None:
    arguments = ", ".join(f"p{i}" for i in range(len(rows)))
    root = f"f32[{sum(rows)},{end} concatenate({arguments}), dimensions={{0}}"
    text = module_text([f"f32[{row},{end}" for row in rows], root)
    assert emit(parse_text(text).entry.root).extent > 1
    check_root(text, random_arrays(text), pieces=pieces)


@pytest.mark.parametrize("pieces", [1, 2, 3])
def test_threads_share_vectors_that_are_joined(pieces: int) -> None:
    root = "f32[70000] concatenate(p0, p1), dimensions={0}"
    text = module_text(["f32[69999]", "f32[1]"], root)
    check_root(text, random_arrays(text), pieces=pieces)


def test_only_copies_of_operands_are_shared() -> None:
    """An update in place takes no longer than its own elements."""
    text = module_text(
        ["f32[64,64,512]", "f32[64,1,512]", "s32[]"],
        "f32[64,64,512] dynamic-update-slice(p0, p1, p2, p2, p2)",
    )
    root = parse_text(text).entry.root
    assert emit(root).split is not None
    in_place = emit(root, aliased=(0,))
    assert in_place.split is None
    assert in_place.nanoseconds * 64 <= emit(root).nanoseconds


@pytest.mark.parametrize("aliased", [(None,), (0,)])
@pytest.mark.parametrize("size", [1, 3, 15, 16, 17, 31, 33, 40])
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "s8", "c64"])
def test_an_update_of_the_part_that_it_reads(
    aliased: tuple[int | None], size: int, dtype: str
) -> None:
    """Rows of all lengths around those of vectors, where each element is read before written."""
    part = f"{dtype}[3,{size}]"
    text = f"""HloModule m
f {{
  x = {dtype}[5,50] parameter(0)
  y = {part} parameter(1)
  one = s32[] constant(1)
  seven = s32[] constant(7)
  s = {part} slice(x), slice={{[1:4],[7:{7 + size}]}}
  u = {part} add(s, y)
  ROOT r = {dtype}[5,50] dynamic-update-slice(x, u, one, seven)
}}
ENTRY e {{
  p0 = {dtype}[5,50] parameter(0)
  p1 = {part} parameter(1)
  ROOT r = {dtype}[5,50] fusion(p0, p1), kind=kLoop, calls=f
}}"""
    check_root(text, random_arrays(text), aliased=aliased)


def test_u32_index_clamps_high() -> None:
    root = "s32[2] dynamic-slice(p0, p1), dynamic_slice_sizes={2}"
    text = module_text(["s32[8]", "u32[]"], root)
    (found,) = check_root(text, [np.arange(8, dtype=np.int32), np.array(4294967295, np.uint32)])
    np.testing.assert_array_equal(found, [6, 7])


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_reshape_and_transpose_of_any_layout(data: st.DataObject) -> None:
    """The generator finds every element of any array in any order of dimensions."""
    dims = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    layout = data.draw(st.permutations(range(len(dims))))
    permutation = data.draw(st.permutations(range(len(dims))))
    result_layout = data.draw(st.permutations(range(len(dims))))
    joined = ",".join
    source = f"s32[{joined(map(str, dims))}]{{{joined(map(str, layout))}}}"
    moved = [dims[d] for d in permutation]
    target = f"s32[{joined(map(str, moved))}]{{{joined(map(str, result_layout))}}}"
    root = f"{target} transpose(p0), dimensions={{{joined(map(str, permutation))}}}"
    text = module_text([source], root)
    check_root(text, [np.arange(np.prod(dims), dtype=np.int32).reshape(dims)], level=0)
    flat = f"s32[{int(np.prod(dims))}] reshape(p0)"
    text = module_text([source], flat)
    check_root(text, [np.arange(np.prod(dims), dtype=np.int32).reshape(dims)], level=0)


def test_pieces_of_the_outer_loop_make_the_whole() -> None:
    """`begin` and `end` split a kernel without gaps or overlaps."""
    text = module_text(["f32[13,7]", "f32[13,7]"], "f32[13,7] add(p0, p1)")
    check_root(text, random_arrays(text), pieces=5)
    text = module_text(["f32[13,7]"], "f32[7,13] transpose(p0), dimensions={1,0}")
    check_root(text, random_arrays(text), pieces=3)
