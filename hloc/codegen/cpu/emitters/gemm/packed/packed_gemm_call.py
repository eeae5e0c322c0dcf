"""Gemms by packed panels and micro-kernels: the call of the loops around them.

`packed_gemm` chooses tiles and blocks; the loops are a routine (`gemm_loops`), whose arguments
describe the operands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.cpu.emitters.gemm.micro_kernels.columns_ahead import STRETCH
from hloc.codegen.cpu.emitters.gemm.packed.gemm_arguments import GemmArguments, gemm_arguments
from hloc.codegen.cpu.emitters.gemm.packed.gemm_loops import nest_routines
from hloc.codegen.cpu.emitters.gemm.packed.gemm_routines import AHEAD, LINES, PANELS, gemm_routines
from hloc.codegen.cpu.emitters.gemm.packed.gemm_schedule import (
    GemmSchedule,
    keeps_rows,
    modelled_schedule,
    panel_sizes,
    prefetches,
    rows_at_once,
    sums_row_bytes,
)
from hloc.codegen.cpu.emitters.gemm.packed.gemm_tiles import arithmetic_of, reads_parts
from hloc.codegen.cpu.emitters.gemm.packed.nest_form import NestForm
from hloc.codegen.cpu.emitters.gemm.packed.packed_gemm import (
    BLOCKS_AHEAD,
    SPLIT_BYTES,
    PackedGemm,
)
from hloc.codegen.cpu.emitters.gemm.packed.sums_rounding import rounding_routine
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.llvm.target import Target
from hloc.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Epilogue:
    """The epilogue of a gemm, called for sums that are final.

    Attributes:
        sums: memory of the sums.
        function: name of the function, with `FINISH_PARAMETERS`.
        context: the pointer that is passed to it.
    """

    sums: IrArray
    function: str
    context: str


def emit_packed(
    k: KernelContext,
    p: PackedGemm,
    lhs: IrArray,
    rhs: IrArray,
    scratch_offset: int,
    epilogue: Epilogue | None = None,
    whole: IrArray | None = None,
) -> None:
    """Write the call of the loops; the kernel's extent is that of `p.pieces`.

    The gemm is the kernel's only result, or the input of `epilogue`; or all of it is written to
    `whole`, independent of the kernel's part.
    """
    if p.exchanged:
        lhs, rhs = rhs, lhs
    out = epilogue.sums if epilogue else whole or k.output
    arithmetic = arithmetic_of(p, k.target)
    schedule = _schedule(k, p)
    begin, end = (0, p.pieces) if whole else (k.begin, k.end)
    if _begins_in_panels(p, schedule):
        begin, end = (
            k.math.ceiling_div(k.math.mul(x, p.column_piece), schedule.width) for x in (begin, end)
        )
    adds = replace(arithmetic, result=arithmetic.total) if schedule.rounds else arithmetic
    routines = gemm_routines(adds, schedule.tile, p.sources, schedule.forms, k.target)
    rounding = [rounding_routine(p.result, k.target)] if schedule.rounds else []
    loops, table = nest_routines(NestForm(*schedule.forms), k.target)
    for unit in (*routines.units, loops, table, *rounding):
        k.use(unit)
    numbers = gemm_arguments(_numbers(p, schedule, k.target), p.outer, p.rows, p.columns, p.depth)
    scratch = k.b.offset_pointer(k.scratch, scratch_offset)
    finish = (f"@{epilogue.function}", epilogue.context) if epilogue else ("null", "null")
    called = [routines.tiles, *(name for name in (routines.columns, routines.rows) if name)]
    arrays = (lhs.pointer, rhs.pointer, out.pointer, scratch)
    functions = [f"@{name}" for name in called]
    round_ = f"@{rounding[0].name}" if rounding else "null"
    others = [f"ptr {x}" for x in (number_table(k, numbers), *finish, round_, *functions)]
    k.b.call_routine(loops.name, arrays, begin, end, *others)


def _schedule(k: KernelContext, p: PackedGemm) -> GemmSchedule:
    """Return the schedule that was chosen for the kernel, else that of the model."""
    return k.choice if isinstance(k.choice, GemmSchedule) else modelled_schedule(p, k.target)


def number_table(k: KernelContext, numbers: Sequence[int]) -> str:
    """Return a constant that holds `numbers` for a routine."""
    text = ", ".join([f"i64 {x}" for x in numbers])
    return k.fn.global_constant(f"[{len(numbers)} x i64]", f"[{text}]")


def row_distance(p: PackedGemm) -> int:
    """Return the row stride of the result in elements."""
    return max(min((axis.out for axis in p.rows), default=1), 1)


def _numbers(p: PackedGemm, schedule: GemmSchedule, target: Target) -> GemmArguments:
    """Return the sizes and blocks of a gemm."""
    arithmetic = arithmetic_of(p, target)
    rows, columns, depth = p.sizes
    panel, rows_bytes, columns_bytes = panel_sizes(schedule, p, arithmetic)
    sums_bytes = sums_row_bytes(schedule)
    operand_bytes, keeps = arithmetic.operand_bytes, keeps_rows(schedule, p, arithmetic)
    group = rows_at_once(schedule)
    has_steps = keeps or (schedule.rows == LINES and schedule.span == depth)
    padded = -(-depth // arithmetic.depth_multiple) * arithmetic.depth_multiple
    is_ahead = prefetches(schedule, p, arithmetic, target)
    column_piece = schedule.width if _begins_in_panels(p, schedule) else p.column_piece
    products = prod(axis.size for axis in p.outer)
    inner_gemms = prod(axis.size for axis in p.outer[1:])
    return GemmArguments(
        rows,
        columns,
        depth,
        products,
        *_share(p, "outer", inner_gemms, products),
        *_share(p, "rows", p.row_piece, rows),
        *_share(p, "columns", column_piece, columns),
        deep=schedule.deep,
        span=schedule.span,
        block=schedule.block,
        height=schedule.tile.rows,
        width=schedule.width,
        group=group,
        operand_bytes=operand_bytes,
        result_bytes=p.result.storage_bytes,
        lhs_bytes=SPLIT_BYTES if reads_parts(p, arithmetic) else p.sources[0].storage_bytes,
        rhs_bytes=p.sources[1].storage_bytes,
        multiple=arithmetic.depth_multiple,
        row_distance=row_distance(p),
        panel=panel,
        panels=panel + rows_bytes,
        sums=panel + rows_bytes + columns_bytes,
        sums_row_bytes=sums_bytes,
        kept_sums_row_bytes=sums_bytes if schedule.span < depth else 0,
        kept_row_bytes=padded * operand_bytes if keeps else 0,
        packed_step_bytes=group * operand_bytes if has_steps else 0,
        ahead_row_bytes=_row_bytes(p, schedule) if is_ahead else 0,
        stretch=STRETCH * arithmetic.group,
        block_bytes=columns_bytes // BLOCKS_AHEAD if schedule.columns == AHEAD else 0,
    )


def _begins_in_panels(p: PackedGemm, schedule: GemmSchedule) -> bool:
    """True if pieces of columns begin within panels, so that parts are whole panels instead."""
    in_panels = p.shared == "columns" and schedule.columns == PANELS
    return in_panels and p.column_piece % schedule.width != 0


def _row_bytes(p: PackedGemm, schedule: GemmSchedule) -> int:
    """Return the distance in memory of steps of k of columns that lie side by side."""
    step = schedule.width if schedule.columns == PANELS else p.depth[0].rhs
    return step * p.sources[1].storage_bytes


def _share(p: PackedGemm, side: str, piece: int, size: int) -> tuple[int, int]:
    """Return factor and offset from a thread's part of the kernel to its part of a side."""
    return (piece, 0) if p.shared == side else (0, size)
