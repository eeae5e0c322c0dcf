"""Gemms of complex matrices with few vectors, as inner products of real and imaginary parts.

Both sides are contiguous along k. A matrix is read in place, as twice as many numbers per row. Each
vector `x` becomes two rows, whose inner products with a row of the matrix are the real and the
imaginary part of the result:

    re x[0]  -im x[0]  re x[1]  -im x[1] ...
    im x[0]   re x[0]  im x[1]   re x[1] ...
"""

from __future__ import annotations

from math import prod

from hloc.codegen.builder.index import row_major_strides
from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.cpu.emitters.gemm.complex_gemm import block_routine, parts_of
from hloc.codegen.cpu.emitters.gemm.unpacked.inner_gemm import (
    MIN_WORK,
    InnerGemm,
    emit_inner,
    inner_gemm,
)
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.gemm_problem import (
    Axis,
    GemmProblem,
    column_axis,
    merged,
    row_axis,
    swapped,
)
from hloc.dtypes import DType, component_of
from hloc.lazy_dataclass import dataclass
from hloc.memory.heap import aligned_bytes


@dataclass(frozen=True, slots=True)
class ComplexInnerGemm:
    """A gemm of complex numbers.

    Attributes:
        problem: in complex numbers; the columns are the vectors.
        exchanged: the two sides were exchanged.
        gemm: that of the parts; its right-hand side are the rows made of the vectors.
        part: type of the parts.
    """

    problem: GemmProblem
    exchanged: bool
    gemm: InnerGemm
    part: DType

    @property
    def rows_bytes(self) -> int:
        """Size of the rows made of all vectors."""
        return aligned_bytes(prod(_row_dims(self.problem)) * self.part.storage_bytes)

    @property
    def repeated_bytes(self) -> int:
        """Bytes that every thread writes and reads; of batches, each has its own."""
        return (0 if self.problem.batch else self.rows_bytes) + self.gemm.repeated_bytes


def complex_inner_gemm(
    p: GemmProblem, sources: tuple[DType, DType], result: DType, least_work: int = MIN_WORK
) -> ComplexInnerGemm | None:
    """Return a gemm of complex numbers as inner products; arguments as for `inner_gemm`."""
    if not result.is_complex or sources != (result, result):
        return None
    if len(p.contracted) != 1 or len(p.rows) > 1 or len(p.columns) > 1:
        return None
    (k,) = p.contracted
    if (k.lhs, k.rhs) != (1, 1):
        return None
    exchanged = row_axis(p).size < column_axis(p).size
    p = swapped(p) if exchanged else p
    if row_axis(p).size == 1:
        return None  # for two vectors, a loop without rows of parts is faster
    part = component_of(result)
    gemm = inner_gemm(_problem_of_parts(p), (part, part), part, least_work)
    if gemm is None or gemm.copied:
        return None
    return ComplexInnerGemm(p, exchanged, gemm, part)


def _row_dims(p: GemmProblem) -> list[int]:
    """Return the dimensions of the array of rows: batches, vectors, two rows each, elements."""
    (k,) = p.contracted
    return [*(axis.size for axis in p.batch), column_axis(p).size, 2, 2 * k.size]


def _problem_of_parts(p: GemmProblem) -> GemmProblem:
    """Return the loops of the gemm of the parts; vectors apart in the result have an outer loop."""
    dims = _row_dims(p)
    *batches, vector, row, _ = row_major_strides(dims)
    column = column_axis(p)
    batch = [
        Axis(axis.size, 2 * axis.lhs, stride, 2 * axis.out)
        for axis, stride in zip(p.batch, batches, strict=True)
    ]
    rows = [Axis(axis.size, 2 * axis.lhs, 0, 2 * axis.out) for axis in p.rows]
    *apart, both = merged([Axis(column.size, 0, vector, 2 * column.out), Axis(2, 0, row, 1)])
    contracted = Axis(dims[-1], 1, 1, 0)
    return GemmProblem((*batch, *apart), merged(rows), (both,), (contracted,))


def emit_complex_inner(
    k: KernelContext,
    p: ComplexInnerGemm,
    lhs: IrArray,
    rhs: IrArray,
    scratch_offset: int,
    *,
    whole: bool = False,
) -> None:
    """Write the rows of the vectors, and the calls of the gemm, which is `whole` if that is."""
    if p.exchanged:
        lhs, rhs = rhs, lhs
    rows = k.scratch_array(scratch_offset, p.part, tuple(_row_dims(p.problem)))
    batch, column = p.problem.batch, column_axis(p.problem)
    (depth,) = p.problem.contracted
    routine = block_routine(p.part, True, k.target, conjugates=True)
    k.use(routine)
    part = (k.begin, k.end) if batch else None
    with k.body.nest([axis.size for axis in batch], range(len(batch)), part) as at:
        source = k.math.linear(at, [axis.rhs for axis in batch])
        target = k.math.linear(at, rows.strides[: len(batch)])
        places = [
            k.b.address(array.pointer, array.dtype, k.math.value(place))
            for array, place in ((rhs, source), (rows, target))
        ]
        numbers = (column.size, column.rhs, depth.size, 1, 2 * depth.size)
        k.b.call_routine(routine.name, places, *numbers)
    out = parts_of(k.output, p.part)
    offset = scratch_offset + p.rows_bytes
    emit_inner(k, p.gemm, parts_of(lhs, p.part), rows, out, offset, whole=whole)
