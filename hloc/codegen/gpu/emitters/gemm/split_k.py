"""The second launch of a split-k gemm: adds the parts in order."""

from __future__ import annotations

from hloc.codegen.builder.values import Value
from hloc.codegen.gpu.context import GpuContext, LaunchWriter
from hloc.codegen.gpu.emitters.gemm.gemm_reader import ResultWriter
from hloc.codegen.gpu.emitters.gemm.matrix_problem import MatrixProblem
from hloc.codegen.gpu.vector_access import load_vector
from hloc.codegen.kernels.panel_gemm import accumulator_dtype


def join_parts(w: LaunchWriter, p: MatrixProblem, parts: int) -> None:
    """Emit the launch; a thread adds the elements of one vector store."""
    sums, columns = p.sums, p.columns.count
    width = min(p.result_width, max(16 // sums.storage_bytes, 1))
    with w.each(p.batch.count * p.rows.count * columns // width) as (k, thread):
        dims = (parts, p.batch.count, p.rows.count, columns)
        partial = k.scratch_array(0, sums, dims)
        position = k.math.mul(thread, width)
        slots = k.b.allocate(sums, width)
        first = load_vector(k, partial.pointer, sums, position, width)
        for i, value in enumerate(first):
            k.b.store(slots, i, value)
        with k.body.loop(1, parts) as part:
            at = k.math.add(position, k.math.mul(part, partial.strides[0]))
            for i, value in enumerate(load_vector(k, partial.pointer, sums, at, width)):
                k.b.store(slots, i, add(k, k.b.load(slots, sums, i), value))
        batch, row, column = k.math.delinear(position, dims[1:])
        values = [k.b.load(slots, sums, i) for i in range(width)]
        ResultWriter(k, p).write(0, batch, row, column, values)


def add(k: GpuContext, x: Value, y: Value) -> Value:
    """Return the sum in the arithmetic of gemms: `or` for pred."""
    assert accumulator_dtype(x.dtype) is x.dtype
    if x.dtype.is_pred:
        return k.b.or_(x, y)
    return k.b.fadd(x, y) if x.dtype.is_float or x.dtype.is_complex else k.b.iadd(x, y)
