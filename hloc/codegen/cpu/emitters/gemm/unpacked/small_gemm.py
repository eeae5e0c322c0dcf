"""Small gemms that run once: one call of a routine that reads both sides in place.

In a loop they are written for their sizes instead (`panel_gemm`).
"""

from __future__ import annotations

from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.cpu.emitters.gemm.unpacked.outer_loops import outer_loops
from hloc.codegen.cpu.emitters.gemm.unpacked.small_gemm_routine import TYPES, small_routine
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.gemm_problem import (
    Axis,
    GemmProblem,
    column_axis,
    other_columns,
    row_axis,
)
from hloc.codegen.kernels.panel_gemm import DEPTH_BLOCK, SMALL_WORK
from hloc.dtypes import DType
from hloc.lazy_dataclass import dataclass

_ONCE = Axis(1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class SmallGemm:
    """A gemm whose columns are contiguous in the right-hand side and in the result.

    Attributes:
        outer: loops around it, slowest first.
    """

    outer: tuple[Axis, ...]
    row: Axis
    column: Axis
    depth: Axis
    dtype: DType


def small_gemm(p: GemmProblem, sources: tuple[DType, DType], result: DType) -> SmallGemm | None:
    """Return `p`, oriented, as a small gemm; None if it is none, or the routine has not its form.

    Long sums need blocks to be accurate, which the routine does not have.
    """
    if result not in TYPES or sources != (result, result) or len(p.contracted) != 1:
        return None
    row, column, (depth,) = row_axis(p), column_axis(p), p.contracted
    if column.rhs != 1 or column.out != 1 or depth.size > DEPTH_BLOCK:
        return None
    if row.size * column.size * depth.size > SMALL_WORK:
        return None
    outer = (*p.batch, *p.rows[:-1], *other_columns(p))
    return SmallGemm(outer, row, column, depth, result)


def part_of(k: KernelContext, size: int, group: int) -> tuple[IndexValue, IndexValue]:
    """Return the first of the batches of the thread's part, and their number.

    There are `size` batches; a part has whole groups of them, and the last part what is left.
    """
    first, whole = k.math.mul(k.begin, group), k.math.mul(k.end, group)
    rest = k.math.mul(k.math.div(k.end, size // group), size % group)
    return first, k.math.sub(k.math.add(whole, rest), first)


def emit_small(
    k: KernelContext,
    p: SmallGemm,
    lhs: IrArray,
    rhs: IrArray,
    out: IrArray,
    *,
    shared: bool,
    group: int = 1,
) -> None:
    """Write the calls of the routine; if `shared`, threads share the outermost loop.

    If that is the only one, its parts have whole groups of `group` batches.
    """
    *outer, batch = p.outer or (_ONCE,)
    first: IndexValue = 0
    batches: IndexValue = batch.size
    if shared and not outer:
        first, batches = part_of(k, batch.size, group)
    start = tuple(k.math.mul(first, step) for step in (batch.lhs, batch.rhs, batch.out))
    routine = small_routine(p.dtype, k.target)
    k.use(routine)
    with outer_loops(k, outer, start, shared=shared) as at:
        places = [
            k.b.address(array.pointer, array.dtype, k.math.value(x))
            for array, x in zip((lhs, rhs, out), at, strict=True)
        ]
        numbers = (
            batches,
            *(p.row.size, p.column.size, p.depth.size),
            *(batch.lhs, batch.rhs, batch.out),
            *(p.row.lhs, p.depth.lhs, p.depth.rhs, p.row.out),
        )
        k.b.call_routine(routine.name, places, *numbers)
