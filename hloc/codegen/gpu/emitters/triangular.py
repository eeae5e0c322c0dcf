"""triangular-solve and cholesky: a block of threads per matrix, one unknown or column at a time.

A solved unknown is subtracted from all remaining rows, or a column is computed from all before it,
by many threads with barriers in between. Each number is summed by one thread, in the order of the
CPU emitter.
"""

from __future__ import annotations

from math import prod

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value, is_narrow_float
from hloc.codegen.gpu.context import GpuContext, LaunchWriter
from hloc.codegen.gpu.emitter import GpuPlan
from hloc.codegen.gpu.kernel import BLOCK_THREADS
from hloc.codegen.kernels.context import root_of
from hloc.codegen.kernels.emitter import Emitter
from hloc.codegen.kernels.triangular import Matrix, checked_pivot, remainder
from hloc.dtypes import PRED
from hloc.ir.instruction import Instruction

_COLUMNS = 32
"""Right-hand sides per block."""

_ROWS = BLOCK_THREADS // _COLUMNS


def plan_solve(inst: Instruction) -> GpuPlan | None:
    """Plan a triangular-solve in a type that is accurate enough for intermediate results."""
    root = root_of(inst)
    if not root.is_a("triangular-solve") or is_narrow_float(root.array.dtype):
        return None
    return GpuPlan(emit_solve)


def emit_solve(w: LaunchWriter) -> None:
    """Write one launch: blocks by matrix and by right-hand sides."""
    root = root_of(w.inst)
    *batch, rows, columns = root.array.dims
    size, count = (rows, columns) if root.attributes.left_side else (columns, rows)
    grid = (-(-count // _COLUMNS), 1, 1)
    with w.launch((grid[0] * prod(batch), 1, 1), (_COLUMNS, _ROWS, 1)) as k:
        matrix, strip = (
            k.math.div(k.block_index("x"), grid[0]),
            k.math.rem(k.block_index("x"), grid[0]),
        )
        column = k.math.add(k.math.mul(strip, _COLUMNS), k.thread("x"))
        # Threads without a right-hand side only reach the barriers.
        mine = [k.math.compare("LT", column, count)] if count % _COLUMNS else []
        _solve(k, tuple(k.math.delinear(matrix, batch)), size, column, k.body.all_of(mine))


def _solve(
    k: GpuContext, batch: tuple[IndexValue, ...], size: int, column: IndexValue, mine: Value
) -> None:
    """Solve for one right-hand side, with all threads that share it."""
    m, b, a = k.math, k.b, k.root.attributes
    # x op(a) = b is op(a)^T x^T = b^T.
    flipped = (a.transpose_a in ("TRANSPOSE", "ADJOINT")) == a.left_side
    backwards = a.lower == flipped
    matrix, right = k.root.operands
    left = Matrix(k, matrix, batch, flipped, a.transpose_a == "ADJOINT")
    given = Matrix(k, right, batch, not a.left_side)
    x = Matrix(k, k.output, batch, not a.left_side)

    def place(row: IndexValue) -> IndexValue:
        return m.sub(size - 1, row) if backwards else row

    with k.body.when(mine), k.body.loop(k.thread("y"), size, _ROWS) as row:
        x.store(row, column, given.load(row, column))
    k.barrier()
    with k.body.loop(0, size) as known:
        if not a.unit_diagonal:
            first = k.body.all_of([mine, m.compare("EQ", k.thread("y"), 0)])
            with k.body.when(first):
                at = place(known)
                x.store(at, column, b.fdiv(x.load(at, column), left.load(at, at)))
            k.barrier()
        with k.body.when(mine):
            result = x.load(place(known), column)
            start = m.add(m.add(known, 1), k.thread("y"))
            with k.body.loop(start, size, _ROWS) as row:
                at = place(row)
                product = b.fmul(left.load(at, place(known)), result)
                x.store(at, column, b.fsub(x.load(at, column), product))
        k.barrier()


def plan_cholesky(inst: Instruction) -> GpuPlan | None:
    """Plan a cholesky."""
    return GpuPlan(emit_cholesky) if root_of(inst).is_a("cholesky") else None


def emit_cholesky(w: LaunchWriter) -> None:
    """Write one launch, a block per matrix."""
    root = root_of(w.inst)
    *batch, size, _ = root.array.dims
    threads = min(BLOCK_THREADS, -(-size // 32) * 32)
    with w.launch((prod(batch), 1, 1), (threads, 1, 1)) as k:
        _factor(k, tuple(k.math.delinear(k.block_index("x"), batch)), size, threads)


def _factor(k: GpuContext, batch: tuple[IndexValue, ...], size: int, threads: int) -> None:
    """Factor one matrix column by column; NaN everywhere if a pivot is not positive."""
    m, b, thread = k.math, k.b, k.thread("x")
    upper = not k.root.attributes.lower
    dtype = k.root.array.dtype
    a = Matrix(k, k.root.operands[0], batch, upper, upper)
    factor = Matrix(k, k.output, batch, upper, upper)
    good, total = b.allocate(PRED), b.allocate(dtype)
    b.store(good, 0, b.const(PRED, True))
    with k.body.loop(0, size) as column:
        with k.body.loop(m.add(column, thread), size, threads) as row:
            factor.store(row, column, remainder(k, a, factor, row, column, total))
        k.barrier()
        pivot = checked_pivot(k, factor.load(column, column), good)
        k.barrier()  # all have read the diagonal
        with k.body.when(m.compare("EQ", thread, 0)):
            factor.store(column, column, pivot)
        with k.body.loop(m.add(m.add(column, 1), thread), size, threads) as row:
            factor.store(row, column, b.fdiv(factor.load(row, column), pivot))
            factor.store(column, row, b.const(dtype, 0))
        k.barrier()
    bad = b.not_(b.load(good, PRED, 0))
    with k.body.when(bad), k.body.loop(thread, size * size, threads) as number:
        row, column = m.delinear(number, [size, size])
        factor.store(row, column, b.const(dtype, float("nan")))


SOLVE = Emitter("triangular-solve", plan_solve)
CHOLESKY = Emitter("cholesky", plan_cholesky)
