"""The model of products on GPUs: it knows the kernels, and what computed sides cost."""

from __future__ import annotations

import pytest

from hloc.analysis.gpu_devices import spec_of_chip
from hloc.analysis.gpu_gemm import (
    PLAIN_TILES,
    TENSOR_CORE_TILES,
    WARPGROUP_F8_TILES,
    WARPGROUP_TILES,
    GemmSide,
    GemmTile,
    GemmWork,
    gemm_seconds,
    gemm_sizes,
)
from hloc.analysis.gpu_performance import ArrayRead, Pattern
from hloc.codegen.gpu.emitters.gemm import tensor_core, tiled_gemm, warpgroup_gemm
from hloc.codegen.gpu.emitters.gemm.gemm import problem_of
from hloc.codegen.gpu.emitters.gemm.gemm_plan import Tile
from hloc.codegen.gpu.emitters.gemm.tensor_core_kinds import kind_of
from hloc.codegen.gpu.emitters.gemm.warpgroup_kinds import HALF_KINDS
from hloc.driver import parse_text
from hloc.dtypes import BF16, F32, DType, dtype_named
from hloc.ir.instruction import Instruction
from hloc.opt.fusion.product_kernel import ProductKernel
from tests.unit.gpu.simulate import entry


def side(dtype: DType, elements: int) -> GemmSide:
    size = dtype.storage_bytes
    read = ArrayRead(size * elements, size, elements, Pattern.NEIGHBOURS)
    return GemmSide(dtype, elements, (read,))


def computed(source: DType, dtype: DType, elements: int, operations: int) -> GemmSide:
    """A side whose elements take some operations on those of an array of another type."""
    reads = side(source, elements).reads
    return GemmSide(dtype, elements, reads, operations * elements, is_computed=True)


def work(
    rows: int, columns: int, depth: int, dtype: DType, right: GemmSide | None = None
) -> GemmWork:
    left = side(dtype, rows * depth)
    right = right or side(dtype, columns * depth)
    return GemmWork(1, rows, columns, depth, left, right, F32, "", 4.0 * rows * columns)


def relative(tiles: tuple[Tile, ...], fastest: float = 0.0) -> list[GemmTile]:
    fastest = fastest or max(tile.speed for tile in tiles)
    return [
        GemmTile(tile.rows, tile.columns, tile.threads, round(tile.speed / fastest, 2))
        for tile in tiles
    ]


def large_product(dtype: str, result: str, algorithm: str) -> Instruction:
    more = f", algorithm={algorithm}" if algorithm else ""
    text = entry(
        f"{dtype}[4096,4096];{dtype}[4096,4096]",
        f"{result}[4096,4096] dot(p0, p1), lhs_contracting_dims={{1}}, "
        f"rhs_contracting_dims={{0}}{more}",
    )
    return parse_text(text).entry.root


def test_tiles_are_those_of_the_kernels() -> None:
    text = entry("bf16[64,64];bf16[64,64]", "f32[64,64] dot(p0, p1), lhs_contracting_dims={1}")
    kind = kind_of(
        problem_of(parse_text(text.replace("1}", "1}, rhs_contracting_dims={0}")).entry.root)
    )
    assert kind is not None
    assert relative(tensor_core.tiles_for(kind)) == list(TENSOR_CORE_TILES)
    assert relative(tuple(tiled_gemm.TILES)) == list(PLAIN_TILES)
    assert relative(HALF_KINDS[BF16].tiles) == list(WARPGROUP_TILES)
    fast, precise = (
        warpgroup_gemm.kind_for(problem_of(large_product("f8e4m3fn", "f32", algorithm)))
        for algorithm in ("dot_any_f8_any_f8_f32_fast_accum", "")
    )
    assert fast is not None
    assert precise is not None
    assert relative(fast.tiles) == list(WARPGROUP_TILES)
    peak = max(tile.speed for tile in fast.tiles)
    assert relative(precise.tiles, peak) == list(WARPGROUP_F8_TILES)


@pytest.mark.parametrize("chip", ["sm_75", "sm_80", "sm_90", "sm_90a", "gfx942"])
@pytest.mark.parametrize("dtype", [F32, BF16])
def test_large_products_take_the_time_of_their_arithmetic(chip: str, dtype: DType) -> None:
    tensor_cores = dtype is BF16 and chip in ("sm_80", "sm_90", "sm_90a")
    device = spec_of_chip(chip)
    peak = device.half_flops if tensor_cores else device.f32_flops
    ratio = gemm_seconds(work(8192, 8192, 8192, dtype), chip) * peak / (2 * 8192**3)
    assert 1.4 < ratio < 2.5


def test_few_rows_take_the_time_of_the_matrix() -> None:
    device = spec_of_chip("sm_90")
    seconds = gemm_seconds(work(1, 8192, 8192, BF16), "sm_90")
    assert seconds == pytest.approx(2 * 8192**2 / device.bytes_per_second, rel=0.15)


@pytest.mark.parametrize("rows", [1, 4])
def test_numbers_of_one_byte_are_read_faster_than_of_four(rows: int) -> None:
    """The converted array itself, in f32, is four times as large."""
    matrix = computed(dtype_named("s8"), F32, 4096 * 4096, 1)
    fused = gemm_seconds(work(rows, 4096, 4096, F32, matrix), "sm_90")
    assert fused < 0.6 * gemm_seconds(work(rows, 4096, 4096, F32), "sm_90")


def test_large_products_lose_warpgroups() -> None:
    """More than the kernel that converts the side takes, unless the chip has none."""
    size = 4096
    fused = work(size, size, size, BF16, computed(F32, BF16, size * size, 1))
    apart = work(size, size, size, BF16)
    lost = {c: gemm_seconds(fused, c) - gemm_seconds(apart, c) for c in ("sm_90", "sm_90a")}
    assert 0 < lost["sm_90"] < lost["sm_90a"]
    assert lost["sm_90a"] > 6 * size * size / spec_of_chip("sm_90a").bytes_per_second


@pytest.mark.parametrize(
    ("types", "algorithm"),
    [
        ("bf16 f32", ""),
        ("f16 f32", ""),
        ("f8e4m3fn f32", ""),
        ("s8 s32", ""),
        ("s4 s32", ""),
        ("f32 f32", "dot_tf32_tf32_f32"),
    ],
)
def test_warpgroups_have_the_types_of_the_kernels(types: str, algorithm: str) -> None:
    dtype, result = types.split()
    root = large_product(dtype, result, algorithm)
    kernel = ProductKernel.of(root)
    assert kernel is not None
    is_faster = kernel.seconds("sm_90a") < kernel.seconds("sm_90")
    assert is_faster == (warpgroup_gemm.kind_for(problem_of(root)) is not None)


def test_a_producer_runs_once_per_tile() -> None:
    """Its operations count again for every 128 columns."""
    device = spec_of_chip("sm_90")
    times = []
    for operations in (0, 100):
        left = computed(F32, F32, 4096 * 4096, operations)
        sides = work(4096, 4096, 4096, F32)
        times.append(
            gemm_seconds(GemmWork(1, 4096, 4096, 4096, left, sides.right, F32, "", 0), "sm_90")
        )
    runs = (times[1] - times[0]) * device.f32_flops / 2 / (100 * 4096 * 4096)
    assert runs == pytest.approx(32, rel=0.01)


@pytest.mark.parametrize("sizes", [(0, 8, 8), (8, 8, 0), (1, 1, 1), (3, 7, 9), (5, 40, 3)])
def test_any_size_has_a_time(sizes: tuple[int, int, int]) -> None:
    assert 0 < gemm_seconds(work(*sizes, F32), "sm_90") < 1e-5


def test_sizes_of_a_convolution_in_groups() -> None:
    text = entry(
        "f32[2,9,8,12];f32[3,3,4,24]",
        "f32[2,7,6,24] convolution(p0, p1), window={size=3x3}, dim_labels=b01f_01io->b01f, "
        "feature_group_count=3",
    )
    root = parse_text(text).entry.root
    assert gemm_sizes(root) == (3, 2 * 7 * 6, 8, 3 * 3 * 4)
    p = problem_of(root)
    assert gemm_sizes(root) == tuple(s.count for s in (p.batch, p.rows, p.columns, p.depth))
