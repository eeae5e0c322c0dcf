"""Products through micro-kernels: sizes at the edges of tiles and blocks, types, vector widths."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from hloc.codegen.cpu.emitters.gemm.dot import micro_gemm
from hloc.codegen.cpu.emitters.gemm.packed.packed_gemm import PackedGemm
from hloc.codegen.cpu.emitters.gemm.unpacked.gemv_streaming import GemvStreaming
from hloc.codegen.cpu.emitters.gemm.unpacked.inner_gemm import InnerGemm
from hloc.codegen.cpu.kernel import routine_names
from hloc.codegen.llvm.object_file import compile_object
from hloc.codegen.llvm.target import Target, host_target
from tests.tolerance import Bounds, bounds
from tests.unit.codegen.harness import (
    check_root,
    emit,
    module_text,
    parse_text,
    random_arrays,
    run_instruction,
)

NEW = ("avx512", "avx10", "avxvnni", "amx", "evex512")


def narrower(bits: int) -> Target:
    """Return the host as a machine with vectors of at most `bits`."""
    host = host_target()
    if bits >= host.vector_bits:
        return host
    gone = NEW if bits == 256 else (*NEW, "avx", "fma", "f16c", "vaes", "vpclmul")
    features = [f"-{f[1:]}" if f[1:].startswith(gone) else f for f in host.features.split(",")]
    return dataclasses.replace(host, features=",".join(features), vector_bits=bits)


def without_matrices(bits: int) -> Target:
    """Return the host as a machine without matrix registers, with vectors of at most `bits`."""
    machine = narrower(bits)
    features = [f"-{f[1:]}" if f[1:].startswith("amx") else f for f in machine.features.split(",")]
    return dataclasses.replace(machine, features=",".join(features))


def product(lhs: str, rhs: str, result: str, left: int, right: int) -> str:
    root = (
        f"{result} dot(p0, p1), lhs_contracting_dims={{{left}}}, rhs_contracting_dims={{{right}}}"
    )
    return module_text([lhs, rhs], root)


def dims(first: int, second: int, exchanged: int) -> str:
    return f"[{second},{first}]" if exchanged else f"[{first},{second}]"


def tolerances(dtype: str) -> Bounds:
    return bounds("narrow products" if dtype in ("bf16", "f16") else "f32 products")


SIZES = [(12, 64, 16), (37, 129, 72), (25, 33, 71), (64, 24, 400), (13, 31, 800), (97, 100, 8)]


@pytest.mark.parametrize(("rows", "columns", "depth"), SIZES)
@pytest.mark.parametrize("left", [0, 1])
@pytest.mark.parametrize("right", [0, 1])
def test_edges_of_tiles_and_blocks(
    rows: int, columns: int, depth: int, left: int, right: int
) -> None:
    lhs = "f32" + dims(rows, depth, 1 - left)
    rhs = "f32" + dims(depth, columns, right)
    text = product(lhs, rhs, f"f32[{rows},{columns}]", left, right)
    if rows * columns * depth >= 1 << 15:
        assert isinstance(micro_gemm(parse_text(text).entry.root), PackedGemm | InnerGemm)
    check_root(text, random_arrays(text), **tolerances("f32"))


TYPES = [
    ("f32", "f32"), ("f64", "f64"), ("f16", "f16"), ("f16", "f32"), ("bf16", "bf16"),
    ("bf16", "f32"), ("s8", "s32"), ("u8", "s32"), ("s32", "s32"),
]  # fmt: skip


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize(("dtype", "result"), TYPES)
# 75 has the whole steps of 72, and a rest after them.
@pytest.mark.parametrize("depth", [75, pytest.param(72, marks=pytest.mark.slow)])
def test_types_on_narrower_machines(bits: int, dtype: str, result: str, depth: int) -> None:
    for right in (0, 1):
        rhs = dtype + dims(depth, 53, right)
        text = product(f"{dtype}[29,{depth}]", rhs, f"{result}[29,53]", 1, right)
        arrays = random_arrays(text)
        check_root(text, arrays, target=narrower(bits), **tolerances(dtype))


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("left", [0, 1])
@pytest.mark.parametrize("right", [0, 1])
@pytest.mark.parametrize(("lhs", "rhs"), [("s8", "s8"), ("s8", "u8"), ("u8", "u8")])
def test_bytes_by_pairs(bits: int, left: int, right: int, lhs: str, rhs: str) -> None:
    """The products of the greatest values are summed without overflow, in either order of k."""
    text = product(
        lhs + dims(29, 72, 1 - left), rhs + dims(72, 53, right), "s32[29,53]", left, right
    )
    arrays = random_arrays(text)
    for array in arrays:
        limits = np.iinfo(array.dtype)
        array[::2], array[1::3] = limits.min, limits.max
    check_root(text, arrays, target=narrower(bits))


@pytest.mark.parametrize("bits", [256, 512])
@pytest.mark.parametrize(("lhs", "rhs"), [("s8", "s8"), ("u8", "s8"), ("bf16", "bf16")])
# The rest of k is 1 to 3 steps of a unit; k is one run or many of them.
@pytest.mark.parametrize("depth", [29, 74, 131])
def test_last_unit_of_k_is_padded(bits: int, lhs: str, rhs: str, depth: int) -> None:
    for left, right in itertools.product((0, 1), repeat=2):
        operands = lhs + dims(53, depth, 1 - left), rhs + dims(depth, 37, right)
        result = "f32" if lhs == "bf16" else "s32"
        text = product(*operands, f"{result}[53,37]", left, right)
        check_root(text, random_arrays(text), target=without_matrices(bits), **tolerances(lhs))


@pytest.mark.parametrize("bits", [128, 256, 512])
# A row alone, a group of rows, and a group with a rest; 2 and 8 are groups as 5 is.
@pytest.mark.parametrize(
    "rows", [1, 5, 11, *(pytest.param(rows, marks=pytest.mark.slow) for rows in (2, 8))]
)
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16"])
def test_few_rows_stream(bits: int, rows: int, dtype: str) -> None:
    text = product(f"{dtype}[{rows},1040]", f"{dtype}[1040,208]", f"{dtype}[{rows},208]", 1, 0)
    assert isinstance(micro_gemm(parse_text(text).entry.root), GemvStreaming)
    check_root(text, random_arrays(text), target=narrower(bits), **tolerances(dtype))


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize(("rows", "columns"), [(12, 112), (14, 83), (20, 240), (45, 83), (64, 64)])
def test_rows_in_groups(bits: int, rows: int, columns: int) -> None:
    """The columns are whole tiles of some machines, and leave rests of every kind on others."""
    for left, batch, dtype in ((1, "", "f32"), (0, "", "f32"), (1, "2,", "f64")):
        lhs = dims(rows, 130, 1 - left).replace("[", f"[{batch}")
        root = (
            f"{dtype}[{batch}{rows},{columns}] dot(p0, p1), "
            f"lhs_contracting_dims={{{left + bool(batch)}}}, "
            f"rhs_contracting_dims={{{int(bool(batch))}}}"
            + (", lhs_batch_dims={0}, rhs_batch_dims={0}" if batch else "")
        )
        text = module_text([dtype + lhs, f"{dtype}[{batch}130,{columns}]"], root)
        found = micro_gemm(parse_text(text).entry.root)
        assert isinstance(found, GemvStreaming)
        assert found.row.size * found.outer[-1].size == rows
        check_root(text, random_arrays(text), target=narrower(bits), **tolerances(dtype))


@pytest.mark.parametrize(
    "shape", [(26, 256, 130), (72, 256, 130), (64, 1024, 130), (16, 1024, 260)]
)
def test_rows_that_are_packed(shape: tuple[int, int, int]) -> None:
    """No even groups; too many of them; a result that others join; a large right-hand side."""
    rows, columns, depth = shape
    text = product(
        f"f32[{rows},{depth}]", f"f32[{depth},{columns}]", f"f32[{rows},{columns}]", 1, 0
    )
    assert isinstance(micro_gemm(parse_text(text).entry.root), PackedGemm)


def test_few_columns_stream_as_rows() -> None:
    text = product("f32[512,208]", "f32[512,3]", "f32[208,3]{0,1}", 0, 0)
    assert isinstance(micro_gemm(parse_text(text).entry.root), GemvStreaming)
    check_root(text, random_arrays(text), **tolerances("f32"))


@pytest.mark.parametrize("scratch_offset", [0, 4, 16, 60])
def test_scratch_memory_of_any_alignment(scratch_offset: int) -> None:
    """Temporaries may lie in outputs, which are not aligned to cache lines."""
    text = product("f32[40,64]", "f32[64,48]", "f32[40,48]", 1, 0)
    check_root(text, random_arrays(text), scratch_offset=scratch_offset, **tolerances("f32"))


BATCHES = [
    ("f32[3,20,40]", "f32[3,40,50]", "f32[3,20,50]", "2", "1", "0", "0"),
    ("f32[20,3,40]", "f32[40,3,50]", "f32[3,20,50]", "2", "0", "1", "1"),
    ("f32[2,17,3,16]", "f32[2,31,3,16]", "f32[2,3,17,31]", "3", "3", "0,2", "0,2"),
    ("f32[2,3,17,40]", "f32[2,40,3,64]", "f32[2,3,17,64]", "3", "1", "0,1", "0,2"),
    ("bf16[3,20,40]", "bf16[3,40,50]", "f32[3,20,50]", "2", "1", "0", "0"),
]


@pytest.mark.parametrize(("lhs", "rhs", "result", "left", "right", "b0", "b1"), BATCHES)
def test_batches(lhs: str, rhs: str, result: str, left: str, right: str, b0: str, b1: str) -> None:
    root = (
        f"{result} dot(p0, p1), lhs_batch_dims={{{b0}}}, rhs_batch_dims={{{b1}}}, "
        f"lhs_contracting_dims={{{left}}}, rhs_contracting_dims={{{right}}}"
    )
    text = module_text([lhs, rhs], root)
    check_root(text, random_arrays(text), **tolerances("bf16" if "bf16" in lhs else "f32"))


@pytest.mark.parametrize("dtype", ["f32", "bf16", "s8"])
@pytest.mark.parametrize("run", [4, 5, 16, 20, 33, 70])
def test_runs_of_k_in_another_order(dtype: str, run: int) -> None:
    """Pieces of k follow each other in either operand, but the operands order them differently."""
    result = "s32" if dtype == "s8" else "f32"
    root = (
        f"{result}[24,50] dot(p0, p1), lhs_contracting_dims={{1,2,3}}, "
        "rhs_contracting_dims={2,1,3}"
    )
    text = module_text([f"{dtype}[24,2,4,{run}]", f"{dtype}[50,4,2,{run}]"], root)
    check_root(text, random_arrays(text), **tolerances(dtype))


def test_extreme_bytes_are_exact() -> None:
    """-128 has no positive counterpart; unsigned units must not overflow on the way."""
    text = product("s8[16,64]", "s8[64,64]", "s32[16,64]", 1, 0)
    root = parse_text(text).entry.root
    lhs, rhs = np.full((16, 64), -128, np.int8), np.full((64, 64), -128, np.int8)
    lhs[:, ::2], rhs[:, ::3] = 127, 127
    (found,) = run_instruction(root, [lhs, rhs])
    np.testing.assert_array_equal(found, lhs.astype(np.int32) @ rhs.astype(np.int32))


def test_infinities_stay_in_their_rows_and_columns() -> None:
    """What panels hold beyond the edge must not reach the result."""
    text = product("f32[13,40]", "f32[40,70]", "f32[13,70]", 1, 0)
    lhs, rhs = np.ones((13, 40), np.float32), np.ones((40, 70), np.float32)
    lhs[12, 3], rhs[5, 69] = np.inf, np.nan
    (found,) = run_instruction(parse_text(text).entry.root, [lhs, rhs])
    assert np.isnan(found[:, 69]).all()
    assert np.isposinf(found[12, :69]).all()
    assert (found[:12, :69] == 40).all()


CONVOLUTIONS = [
    ("f32[2,9,9,8]", "f32[3,3,8,24]", "f32[2,9,9,24]", "size=3x3 pad=1_1x1_1", ""),
    ("f32[2,15,15,3]", "f32[7,7,3,24]", "f32[2,8,8,24]", "size=7x7 stride=2x2 pad=3_3x3_3", ""),
    ("f32[2,5,5,16]", "f32[3,3,16,24]", "f32[2,9,9,24]",
     "size=3x3 pad=1_1x1_1 lhs_dilate=2x2", ""),
    ("f32[2,9,9,16]", "f32[3,3,16,24]", "f32[2,7,7,24]",
     "size=3x3 pad=1_1x1_1 rhs_dilate=2x2", ""),
    ("f32[2,9,9,16]", "f32[3,3,16,24]", "f32[2,9,9,24]",
     "size=3x3 pad=1_1x1_1 rhs_reversal=1x1", ""),
    ("f32[2,9,9,32]", "f32[3,3,16,48]", "f32[2,9,9,48]", "size=3x3 pad=1_1x1_1",
     ", feature_group_count=2"),
    ("f32[4,9,9,16]", "f32[3,3,16,48]", "f32[2,9,9,48]", "size=3x3 pad=1_1x1_1",
     ", batch_group_count=2"),
    ("bf16[2,9,9,16]", "bf16[3,3,16,24]", "bf16[2,9,9,24]", "size=3x3 pad=1_1x1_1", ""),
    ("f64[2,9,9,16]", "f64[3,3,16,24]", "f64[2,9,9,24]", "size=3x3 pad=2_0x0_2", ""),
]  # fmt: skip


@pytest.mark.parametrize(("lhs", "rhs", "result", "window", "groups"), CONVOLUTIONS)
@pytest.mark.parametrize("layout", ["", "{1,2,3,0}"])
def test_windows(lhs: str, rhs: str, result: str, window: str, groups: str, layout: str) -> None:
    """Also with features slowest in the input and the result, as NCHW lies in memory."""
    labels = "b01f_01io->b01f"
    root = f"{result}{layout} convolution(p0, p1), window={{{window}}}, dim_labels={labels}{groups}"
    text = module_text([lhs + layout, rhs], root)
    check_root(text, random_arrays(text), **tolerances("bf16" if "bf16" in lhs else "f32"))


@pytest.mark.parametrize("dtype", ["f32", "f64", "s32"])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_columns_under_windows(dtype: str, stride: int) -> None:
    """Places of columns that lie side by side, apart, and across the end of a line."""
    size = 8 + 36 * stride
    window = f"size=3x3 stride={stride}x{stride}"
    out = (size - 3) // stride + 1
    root = (
        f"{dtype}[1,16,{out},{out}] convolution(p0, p1), window={{{window}}}, "
        "dim_labels=bf01_oi01->bf01"
    )
    text = module_text([f"{dtype}[1,4,{size},{size}]", f"{dtype}[16,4,3,3]"], root)
    exact = bounds("exact") if dtype == "s32" else tolerances(dtype)
    check_root(text, random_arrays(text), **exact)


@pytest.mark.parametrize(
    ("dtype", "sizes", "layout"),
    [
        ("f32", "4,4", "{1,2,0}"),
        ("s32", "8,4,4", "{2,3,1,0}"),
        ("f64", "2,4", "{1,2,0}"),
        ("f64", "31,2,4", "{2,3,0,1}"),
    ],
)
def test_columns_as_far_apart_as_in_a_line(dtype: str, sizes: str, layout: str) -> None:
    """The first and the last of a vector of columns do not tell where those between them lie."""
    text = product(f"{dtype}[64,64]", f"{dtype}[64,{sizes}]{layout}", f"{dtype}[64,{sizes}]", 1, 0)
    exact = bounds("exact") if dtype == "s32" else tolerances(dtype)
    check_root(text, random_arrays(text), **exact)


@pytest.mark.parametrize("pieces", [1, 3])
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16"])
def test_all_of_k_is_packed_for_some_columns(dtype: str, pieces: int) -> None:
    """Several blocks of columns, and several of k, for one panel of rows after the other."""
    depth = {"f32": 1000, "f64": 500, "bf16": 1030}[dtype]
    result = "f32" if dtype == "bf16" else dtype
    text = product(f"{dtype}[37,{depth}]", f"{dtype}[{depth},530]", f"{result}[37,530]", 1, 0)
    check_root(text, random_arrays(text), pieces=pieces, **tolerances(dtype))


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("columns", [9, 16, 17, 64])
@pytest.mark.parametrize("dtype", ["f32", "f64", "s32"])
def test_rows_in_place_by_runs_of_k(bits: int, columns: int, dtype: str) -> None:
    """Even and odd steps have sums of their own where there are few."""
    text = product(f"{dtype}[29,84]", f"{dtype}[84,{columns}]", f"{dtype}[29,{columns}]", 1, 0)
    exact = bounds("exact") if dtype == "s32" else tolerances(dtype)
    check_root(text, random_arrays(text), target=narrower(bits), **exact)


def test_kernels_of_one_form_share_their_routines() -> None:
    texts = [product(f"f32[{n},{n}]", f"f32[{n},{n}]", f"f32[{n},{n}]", 1, 0) for n in (288, 384)]
    first, second = (emit(parse_text(text).entry.root).routines for text in texts)
    assert first == second


def test_products_share_their_tiles_if_only_the_packing_differs() -> None:
    """Tiles take longest to compile; a model has products of several orientations."""
    texts = [product("f32[192,192]", "f32[192,192]", "f32[192,192]", 1, n) for n in (0, 1)]
    first, second = (set(emit(parse_text(text).entry.root).routines) for text in texts)
    assert first != second
    assert any(routines.name.startswith("tiles_") for routines in first & second)


def test_routines_are_made_for_other_processors() -> None:
    """The text asks for no instruction of the host unless the target has it."""
    text = product("bf16[64,64]", "bf16[64,64]", "f32[64,64]", 1, 0)
    target = narrower(128)
    kernel = emit(parse_text(text).entry.root, target=target)
    for routines in kernel.routines:
        assert "llvm.x86" not in routines.text
        known = frozenset(routine_names(kernel))
        assert compile_object(routines.text, target, routines.level, known)
