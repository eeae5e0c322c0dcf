"""Rows that are gathered from a table: indices are loaded once a row, and later rows prefetched."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hloc.codegen.llvm.target import host_target, target_for
from hloc.memory.heap import CACHE_LINE_BYTES
from tests.unit.codegen.harness import check_root, emit, module_text, parse_text, random_arrays
from tests.unit.codegen.processors import IS_X86, PROCESSOR

SMALL_CACHE = replace(host_target(), l2_bytes=1024)

ROWS = (
    "gather(p0, p1), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
    "index_vector_dim=1, slice_sizes="
)


def kernel_text(text: str) -> str:
    return emit(parse_text(text).entry.root, target=SMALL_CACHE).text


def check(text: str, cpu: str = "", pieces: int = 1) -> None:
    """Compare with the evaluator, for indices that are partly out of bounds."""
    machine = replace(target_for(cpu=cpu), l2_bytes=1024)
    arrays = random_arrays(text)
    indices = arrays[1]
    indices[...] = np.random.default_rng(0).integers(-3, arrays[0].shape[0] + 3, indices.shape)
    check_root(text, arrays, target=machine, pieces=pieces)


@PROCESSOR
@pytest.mark.parametrize("width", [1, 8, 37, 256])
@pytest.mark.parametrize("rows", [3, 4, 5, 30])
@pytest.mark.parametrize("pieces", [1, 3])
def test_rows(cpu: str, width: int, rows: int, pieces: int) -> None:
    """Fewer rows than are prefetched, and rows of whole vectors and others."""
    root = f"f32[{rows},{width}] {ROWS}{{1,{width}}}"
    check(module_text([f"f32[90,{width}]", f"s32[{rows}]"], root), cpu, pieces)


@pytest.mark.parametrize("dtype", ["bf16", "f64", "s8", "c64", "pred"])
def test_types(dtype: str) -> None:
    root = f"{dtype}[30,64] {ROWS}{{1,64}}"
    check(module_text([f"{dtype}[90,64]", "u8[30]"], root.replace("u8", "s32")))


@PROCESSOR
def test_rows_within_a_sum(cpu: str) -> None:
    """Elementwise instructions between, two gathers of the same indices, and two results."""
    body = """
add_rows {
  t = f32[90,40] parameter(0)
  i = s32[5,7] parameter(1)
  p = f32[7,40] parameter(2)
  g = f32[5,7,40] gather(t, i), WINDOW
  b = f32[5,7,40] broadcast(p), dimensions={1,2}
  s = f32[5,7,40] add(g, b)
  n = f32[90,40] negate(t)
  h = f32[5,7,40] gather(n, i), WINDOW
  m = f32[5,7,40] multiply(s, h)
  ROOT r = (f32[5,7,40], f32[5,7,40]) tuple(m, g)
}
"""
    entry = """
ENTRY e {
  t = f32[90,40] parameter(0)
  i = s32[5,7] parameter(1)
  p = f32[7,40] parameter(2)
  ROOT f = (f32[5,7,40], f32[5,7,40]) fusion(t, i, p), kind=kLoop, calls=add_rows
}
"""
    window = ROWS.partition("), ")[2].replace("dims={1}", "dims={2}").replace("dim=1", "dim=2")
    text = f"HloModule test\n{body}{entry}".replace("WINDOW", window + "{1,40}")
    assert kernel_text(text).count("@llvm.prefetch") == 1  # of `g`, whose table is in memory
    check(text, cpu)


def test_windows_of_several_rows() -> None:
    """Starts in two dimensions, one of them along rows."""
    root = (
        "f32[30,3,16] gather(p0, p1), offset_dims={1,2}, collapsed_slice_dims={}, "
        "start_index_map={1,0}, index_vector_dim=1, slice_sizes={3,16}"
    )
    check(module_text(["f32[90,40]", "s32[30,2]"], root))


def test_columns_have_an_index_of_their_own() -> None:
    """A gather along the last dimension is none of rows."""
    root = (
        "f32[90,30] gather(p0, p1), offset_dims={0}, collapsed_slice_dims={1}, "
        "start_index_map={1}, index_vector_dim=1, slice_sizes={90,1}"
    )
    text = module_text(["f32[90,40]", "s32[30]"], root)
    assert "@llvm.prefetch" not in kernel_text(text)
    check(text)


def test_rows_of_a_small_table_are_not_prefetched() -> None:
    text = module_text(["f32[5,16]", "s32[30]"], f"f32[30,16] {ROWS}{{1,16}}")
    assert "@llvm.prefetch" not in kernel_text(text)
    assert "@llvm.prefetch" in kernel_text(text.replace("f32[5,16]", "f32[50,16]"))


@pytest.mark.skipif(not IS_X86, reason="vectors of whole rows on any machine")
def test_indices_are_loaded_once_a_row() -> None:
    """The row's own index, and that of the row to prefetch, both before the loop over the row."""
    text = kernel_text(module_text(["f32[90,64]", "s32[30]"], f"f32[30,64] {ROWS}{{1,64}}"))
    before, after = text.split("@llvm.prefetch.p0(ptr", 1)
    assert before.count("load i32") == 2
    assert "load i32" not in after


@PROCESSOR
@pytest.mark.parametrize("width", [8, 37, 64])
@pytest.mark.parametrize("updates", ["a parameter", "gathered rows"])
def test_rows_that_are_updated_later_are_prefetched(width: int, updates: str, cpu: str) -> None:
    """Those of the result and, if updates are rows of a table, those of the table."""
    gathered = f"f32[30,{width}] {ROWS}{{1,{width}}}".replace("p0, p1", "t, i")
    body = f"""
add {{ a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }}
add_rows {{
  t = f32[90,{width}] parameter(0)
  i = s32[30,1] parameter(1)
  x = f32[50,{width}] parameter(2)
  u = f32[30,{width}] parameter(3)
  g = {gathered}
  ROOT s = f32[50,{width}] scatter(x, i, {"g" if "gathered" in updates else "u"}), to_apply=add,
    update_window_dims={{1}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}},
    index_vector_dim=1
}}
ENTRY e {{
  t = f32[90,{width}] parameter(0)
  i = s32[30,1] parameter(1)
  x = f32[50,{width}] parameter(2)
  u = f32[30,{width}] parameter(3)
  ROOT f = f32[50,{width}] fusion(t, i, x, u), kind=kLoop, calls=add_rows
}}
"""
    text = f"HloModule test\n{body}"
    lines, rows = -(-width * 4 // CACHE_LINE_BYTES), 2 if "gathered" in updates else 1
    assert kernel_text(text).count("call void @llvm.prefetch") == rows * lines
    check(text, cpu)


@pytest.mark.parametrize(
    ("dims", "window", "inserted", "indexed"),
    [("20,40,40", "40,40", "{0}", "{0}"), ("40,50", "40", "{1}", "{1}")],
    ids=["large windows", "columns"],
)
def test_windows_that_are_not_prefetched(
    dims: str, window: str, inserted: str, indexed: str
) -> None:
    inside = "{1,2}" if "," in window else "{1}"
    root = (
        f"f32[{dims}] scatter(p0, p1, p2), update_window_dims={inside}, "
        f"inserted_window_dims={inserted}, scatter_dims_to_operand_dims={indexed}, "
        "index_vector_dim=1, to_apply=add"
    )
    shapes = [f"f32[{dims}]", "s32[30,1]", f"f32[30,{window}]"]
    add = "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, b) }"
    assert "@llvm.prefetch" not in kernel_text(module_text(shapes, root, add))
