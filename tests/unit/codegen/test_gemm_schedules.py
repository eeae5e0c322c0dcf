"""Schedules of gemms: what they change, and that every one gives the same bits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hloc.codegen.cpu.emitters.gemm.dot import micro_gemm
from hloc.codegen.cpu.emitters.gemm.micro_kernels.columns_ahead import STRETCH, prefetched_range
from hloc.codegen.cpu.emitters.gemm.micro_kernels.tile_arithmetic import Tile
from hloc.codegen.cpu.emitters.gemm.packed.gemm_routines import DIRECT_RUNS, LINES
from hloc.codegen.cpu.emitters.gemm.packed.gemm_schedule import (
    GemmSchedule,
    keeps_rows,
    modelled_schedule,
    prefetches,
    schedules,
    scratch_of,
)
from hloc.codegen.cpu.emitters.gemm.packed.gemm_tiles import arithmetic_of
from hloc.codegen.cpu.emitters.gemm.packed.packed_gemm import PackedGemm
from hloc.codegen.cpu.emitters.routine_writer import RoutineWriter
from hloc.codegen.cpu.kernel import choices_of
from hloc.codegen.llvm.target import host_target, target_for
from hloc.codegen.plan.kernel_request import KernelRequest
from tests.unit.codegen.harness import module_text, parse_text, random_arrays, run_instruction

Case = tuple[str, str, str, int, int]

CASES: list[Case] = [
    ("f32[29,800]", "f32[800,70]", "f32[29,70]", 1, 0),
    ("f32[800,29]", "f32[70,800]", "f32[29,70]", 0, 1),
    ("f32[37,401]", "f32[401,1100]", "f32[37,1100]", 1, 0),
    ("f32[401,37]", "f32[401,1100]", "f32[37,1100]", 0, 0),
    ("f64[40,500]", "f64[500,33]", "f64[40,33]", 1, 0),
    ("bf16[30,600]", "bf16[600,40]", "f32[30,40]", 1, 0),
    ("f16[30,120]", "f16[120,40]", "f16[30,40]", 1, 0),
    ("s8[30,600]", "s8[600,40]", "s32[30,40]", 1, 0),
]
EPILOGUE = """HloModule m
body {
  p0 = f32[29,800] parameter(0)
  p1 = f32[800,70] parameter(1)
  p2 = f32[29,70] parameter(2)
  d = f32[29,70] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = f32[29,70] add(d, p2)
}
ENTRY e {
  p0 = f32[29,800] parameter(0)
  p1 = f32[800,70] parameter(1)
  p2 = f32[29,70] parameter(2)
  ROOT r = f32[29,70] fusion(p0, p1, p2), kind=kOutput, calls=body
}"""
CONVOLUTION = module_text(
    ["f32[1,14,14,32]", "f32[3,3,32,40]"],
    "f32[1,12,12,40] convolution(p0, p1), window={size=3x3}, dim_labels=b01f_01io->b01f",
)


def text_of(case: Case) -> str:
    lhs, rhs, result, left, right = case
    dims = f"lhs_contracting_dims={{{left}}}, rhs_contracting_dims={{{right}}}"
    return module_text([lhs, rhs], f"{result} dot(p0, p1), {dims}")


def gemm_of(case: Case) -> PackedGemm:
    found = micro_gemm(parse_text(text_of(case)).entry.root)
    assert isinstance(found, PackedGemm)
    return found


TEXTS = [*map(text_of, CASES), EPILOGUE, CONVOLUTION]


@pytest.mark.parametrize(("text", "pieces"), [*((text, 1) for text in TEXTS), (TEXTS[2], 3)])
def test_every_schedule_gives_the_same_bits(text: str, pieces: int) -> None:
    """Matrix registers, which multiply bf16 and s8, leave no choice."""
    root, arrays = parse_text(text).entry.root, random_arrays(text)
    target = host_target()
    choices = choices_of(KernelRequest(root, (None,)), target)
    is_matrix = target.has("amx-tile") and ("bf16[" in text or "s8[" in text)
    assert (len(choices) > 2) != is_matrix
    (wanted,) = run_instruction(root, arrays, pieces=pieces)
    for choice in choices:
        (found,) = run_instruction(root, arrays, pieces=pieces, choice=choice)
        assert found.tobytes() == wanted.tobytes(), str(choice)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("cpu", ["haswell", "skylake-avx512", "sapphirerapids", "x86-64"])
def test_schedules_fit_the_scratch_memory(case: Case, cpu: str) -> None:
    gemm, target = gemm_of(case), target_for("x86_64", cpu)
    found = schedules(gemm, target)
    assert found[0] == modelled_schedule(gemm, target)
    assert len(set(found)) == len(found)
    for schedule in found:
        assert scratch_of(schedule, gemm, arithmetic_of(gemm, target)) <= gemm.scratch_bytes
        assert schedule.block % schedule.width == 0
        assert schedule.deep == found[0].deep  # a block of k is one sum


@pytest.mark.parametrize("cpu", ["haswell", "sapphirerapids"])
@pytest.mark.parametrize("l2_kib", [256, 512, 1024, 1280, 2048, 4096])
@pytest.mark.parametrize("dtype", ["f32", "s32", "bf16"])
def test_schedules_fit_with_any_cache(dtype: str, l2_kib: int, cpu: str) -> None:
    target = replace(target_for("x86_64", cpu), l2_bytes=l2_kib << 10)
    for m, k, n in ((200, 300, 1000), (128, 768, 3072), (49, 4608, 512), (1000, 1100, 900)):
        gemm = gemm_of((f"{dtype}[{m},{k}]", f"{dtype}[{k},{n}]", f"{dtype}[{m},{n}]", 1, 0))
        found = modelled_schedule(gemm, target)
        assert scratch_of(found, gemm, arithmetic_of(gemm, target)) <= gemm.scratch_bytes


@pytest.mark.parametrize(
    ("rows", "depth", "expected"),
    [
        (128, 768, (256, 256, True)),  # sums of all rows
        (512, 768, (256, 768, True)),  # sums of a panel of rows
        (128, 512, (512, 512, False)),  # one block of k, which is rounded in its tile
    ],
)
def test_deep_narrow_products_have_sums_in_scratch_memory(
    rows: int, depth: int, expected: tuple[int, int, bool]
) -> None:
    gemm = gemm_of((f"bf16[{rows},{depth}]", f"bf16[{depth},768]", f"bf16[{rows},768]", 1, 0))
    found = modelled_schedule(gemm, target_for("x86_64", "sapphirerapids"))
    assert (found.deep, found.span, found.rounds) == expected
    assert not modelled_schedule(gemm, target_for("x86_64", "cooperlake")).rounds


def test_schedules_differ_in_everything_that_keeps_the_bits() -> None:
    found = schedules(gemm_of(CASES[2]), target_for("x86_64", "haswell"))
    for names in (("tile",), ("rows",), ("block",), ("span",)):
        assert len({tuple(getattr(s, name) for name in names) for s in found}) > 1, names


def test_two_accumulators_are_not_exchanged_for_one() -> None:
    """With 512 bits, small tiles of rows in place sum even and odd steps apart."""
    target = target_for("x86_64", "skylake-avx512")
    found = schedules(gemm_of(("f32[1000,800]", "f32[800,16]", "f32[1000,16]", 1, 0)), target)
    assert found[0].rows == DIRECT_RUNS
    assert {s.tile.rows * s.tile.vectors for s in found} == {found[0].tile.rows}
    assert {s.rows for s in found} == {DIRECT_RUNS}


@pytest.mark.parametrize(
    ("case", "l2_kib", "expected"),
    [
        ((128, 768, 3072), 512, (112, 384)),  # the next block of as many columns is prefetched
        ((128, 768, 3072), 2048, (224, 384)),
        ((24, 768, 768), 512, (48, 384)),  # fewer: nothing prefetches the first block
        ((128, 640, 384), 512, (128, 320)),
        ((128, 1024, 1024), 512, (112, 352)),
        ((128, 1024, 1024), 2048, (240, 352)),
        ((300, 768, 3072), 512, (112, 384)),
        ((300, 768, 3072), 1024, (224, 384)),
        ((300, 768, 3072), 2048, (224, 384)),
        ((600, 640, 384), 512, (384, 640)),  # one panel holds all columns
        ((400, 768, 3072), 512, (320, 768)),  # too many rows for that
        ((1024, 768, 3072), 512, (320, 768)),
        ((200, 1024, 1024), 256, (512, 352)),  # blocks of k
        ((1000, 1100, 900), 512, (512, 368)),
        ((1000, 1100, 900), 2048, (192, 1100)),
        ((2048, 1024, 256), 512, (256, 1024)),
    ],
)
def test_few_rows_have_packed_columns_that_fit_the_cache(
    case: tuple[int, int, int], l2_kib: int, expected: tuple[int, int]
) -> None:
    target = replace(target_for("x86_64", "haswell"), l2_bytes=l2_kib << 10)
    rows, depth, columns = case
    lhs, rhs, result = f"[{rows},{depth}]", f"[{depth},{columns}]", f"[{rows},{columns}]"
    gemm = gemm_of((f"f32{lhs}", f"f32{rhs}", f"f32{result}", 1, 0))
    found = modelled_schedule(gemm, target)
    assert (found.block, found.span) == expected
    assert scratch_of(found, gemm, arithmetic_of(gemm, target)) <= gemm.scratch_bytes


@pytest.mark.parametrize(
    ("case", "is_expected"),
    [
        (("f32[128,768]", "f32[768,3072]", "f32[128,3072]", 1, 0), True),
        (("f32[49,2048]", "f32[2048,512]", "f32[49,512]", 1, 0), True),
        (("f32[1024,768]", "f32[768,3072]", "f32[1024,3072]", 1, 0), False),  # too many rows
        (("f32[128,768]", "f32[3072,768]", "f32[128,3072]", 1, 1), False),  # columns along k
        (("bf16[128,768]", "bf16[768,3072]", "f32[128,3072]", 1, 0), False),  # converted
    ],
)
def test_columns_are_prefetched_where_packing_moves_them(case: Case, is_expected: bool) -> None:
    target = replace(target_for("x86_64", "haswell"), l2_bytes=2 << 20)
    gemm = gemm_of(case)
    found = modelled_schedule(gemm, target)
    assert prefetches(found, gemm, arithmetic_of(gemm, target), target) == is_expected


def test_few_packed_rows_stay_for_all_columns() -> None:
    target = replace(target_for("x86_64", "haswell"), l2_bytes=2 << 20)
    for rows, is_expected in ((100, True), (1200, True), (1500, False)):
        gemm = gemm_of((f"f32[768,{rows}]", "f32[768,3072]", f"f32[{rows},3072]", 0, 0))
        found, arithmetic = modelled_schedule(gemm, target), arithmetic_of(gemm, target)
        assert keeps_rows(found, gemm, arithmetic) == is_expected
        in_place = gemm_of((f"f32[{rows},768]", "f32[768,3072]", f"f32[{rows},3072]", 1, 0))
        assert not any(keeps_rows(s, in_place, arithmetic) for s in schedules(in_place, target))
        assert scratch_of(found, gemm, arithmetic) <= gemm.scratch_bytes


@pytest.mark.parametrize(
    ("case", "cpu"),
    [
        (("s8[128,3072]", "s8[3072,1100]", "s32[128,1100]", 1, 0), "haswell"),  # as s16
        (("f32[128,768]", "f32[768,3072]", "f32[128,3072]", 1, 0), "sapphirerapids"),  # in parts
    ],
)
def test_rows_that_stay_packed_in_another_type_fit(case: Case, cpu: str) -> None:
    target, gemm = replace(target_for("x86_64", cpu), l2_bytes=2 << 20), gemm_of(case)
    arithmetic = arithmetic_of(gemm, target)
    found = modelled_schedule(gemm, target)
    assert keeps_rows(found, gemm, arithmetic)
    assert scratch_of(found, gemm, arithmetic) <= gemm.scratch_bytes


@pytest.mark.parametrize(("rows", "depth"), [(128, 768), (49, 200), (13, 1000), (130, 33)])
def test_row_tiles_prefetch_every_step_of_the_next_columns(rows: int, depth: int) -> None:
    """Shares of the tiles follow each other; only the last ones reach beyond the end."""
    math = RoutineWriter("f", (), host_target()).math
    tiles, stretches = -(-rows // 6), -(-depth // STRETCH)
    covered = 0
    for tile in range(tiles):
        start, share = prefetched_range(math, tile, tiles, depth, STRETCH)
        assert start == covered
        assert isinstance(share, int)
        covered += share * stretches
    assert covered >= depth


@pytest.mark.parametrize("columns", [24, 40])
def test_last_columns_that_fill_half_a_tile_are_multiplied_alone(columns: int) -> None:
    """Otherwise tiles of one vector, which take more loads, would be faster."""
    gemm = gemm_of(("f32[600,64]", f"f32[64,{columns}]", f"f32[600,{columns}]", 1, 0))
    assert modelled_schedule(gemm, target_for("x86_64", "haswell")).tile == Tile(6, 2)


def test_a_schedule_says_what_it_does() -> None:
    blocks = GemmSchedule(Tile(6, 2), 16, DIRECT_RUNS, LINES, 128, 384, 384)
    assert str(blocks) == "tile 6x16, rows in place, 128 columns"
    whole = replace(blocks, rows=LINES, span=768)
    assert str(whole) == "tile 6x16, rows packed, 128 columns x 768 of k"
