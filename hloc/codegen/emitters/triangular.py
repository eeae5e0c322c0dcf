"""triangular-solve by substitution, and cholesky by columns; matrices one after another."""

from __future__ import annotations

from hloc.codegen.emitters.context import Emitter, KernelContext, no_split, root_of
from hloc.codegen.emitters.dot import operand_arrays, operand_bytes
from hloc.codegen.ir_array import IrArray
from hloc.codegen.loops import IndexValue
from hloc.codegen.values import Value
from hloc.dtypes import PRED, component_of
from hloc.ir.instruction import Instruction


def can_emit_solve(inst: Instruction) -> bool:
    """True if the result is that of a triangular-solve."""
    return root_of(inst).opcode.name == "triangular-solve"


def can_emit_cholesky(inst: Instruction) -> bool:
    """True if the result is that of a cholesky."""
    return root_of(inst).opcode.name == "cholesky"


class _Matrix:
    """Two dimensions of an array at a fixed batch index, perhaps transposed and conjugated."""

    def __init__(
        self,
        k: KernelContext,
        array: IrArray,
        batch: list[IndexValue],
        transposed: bool,
        conjugated: bool = False,
    ) -> None:
        self.k, self.array, self.batch = k, array, batch
        self.transposed, self.conjugated = transposed, conjugated and array.dtype.is_complex

    def _index(self, row: IndexValue, column: IndexValue) -> tuple[IndexValue, ...]:
        pair = (column, row) if self.transposed else (row, column)
        return (*self.batch, *pair)

    def load(self, row: IndexValue, column: IndexValue) -> Value:
        """Return an element."""
        return self._conjugate(self.array.load(self.k.math, self._index(row, column)))

    def store(self, row: IndexValue, column: IndexValue, value: Value) -> None:
        """Write an element."""
        self.array.store(self.k.math, self._index(row, column), self._conjugate(value))

    def _conjugate(self, value: Value) -> Value:
        b = self.k.b
        if not self.conjugated:
            return value
        return b.complex(b.real(value), b.fneg(b.imag(value)))


def emit_solve(k: KernelContext) -> None:
    """Copy b to the result, then eliminate row by row."""
    a = k.root.attributes
    matrix, right = operand_arrays(k)
    transposed = a.transpose_a in ("TRANSPOSE", "ADJOINT")
    # x op(a) = b is op(a)^T x^T = b^T.
    flipped = transposed == a.left_side
    lower = a.lower != flipped
    *batch_dims, rows, columns = right.dims
    size, count = (rows, columns) if a.left_side else (columns, rows)
    with k.body.nest(right.dims, range(len(right.dims))) as at:
        k.output.store(k.math, tuple(at), right.load(k.math, tuple(at)))
    with k.body.nest(batch_dims, range(len(batch_dims))) as batch:
        left = _Matrix(k, matrix, batch, flipped, a.transpose_a == "ADJOINT")
        x = _Matrix(k, k.output, batch, not a.left_side)
        with k.body.loop(0, size) as step:
            row = step if lower else k.math.sub(size - 1, step)
            known = (0, row) if lower else (k.math.add(row, 1), size)
            with k.body.loop(*known) as other:
                factor = left.load(row, other)
                with k.body.loop(0, count) as j:
                    product = k.b.fmul(factor, x.load(other, j))
                    x.store(row, j, k.b.fsub(x.load(row, j), product))
            if not a.unit_diagonal:
                pivot = left.load(row, row)
                with k.body.loop(0, count) as j:
                    x.store(row, j, k.b.fdiv(x.load(row, j), pivot))


def emit_cholesky(k: KernelContext) -> None:
    """Factor each matrix column by column; NaN everywhere if a pivot is not positive."""
    b = k.b
    (array,) = operand_arrays(k)
    upper = not k.root.attributes.lower
    *batch_dims, size, _ = array.dims
    part = component_of(array.dtype)
    good = b.allocate(PRED)
    total = b.allocate(array.dtype)
    with k.body.nest(batch_dims, range(len(batch_dims))) as batch:
        a = _Matrix(k, array, batch, upper, upper)
        factor = _Matrix(k, k.output, batch, upper, upper)
        b.store(good, 0, b.const(PRED, True))
        with k.body.loop(0, size) as column:
            root = _pivot(k, a, factor, column, total)
            positive = b.compare("GT", root, b.const(part, 0))
            finite = b.compare("LT", root, b.const(part, float("inf")))
            b.store(good, 0, b.and_(b.load(good, PRED, 0), b.and_(positive, finite)))
            pivot = b.convert(root, array.dtype)
            factor.store(column, column, pivot)
            with k.body.loop(k.math.add(column, 1), size) as row:
                value = _remainder(k, a, factor, row, column, total)
                factor.store(row, column, b.fdiv(value, pivot))
                factor.store(column, row, b.const(array.dtype, 0))
        bad = b.xor(b.load(good, PRED, 0), b.const(PRED, True))
        with k.body.when(bad), k.body.nest([size, size], [0, 1]) as (row, column):
            factor.store(row, column, b.const(array.dtype, float("nan")))


def _pivot(
    k: KernelContext, a: _Matrix, factor: _Matrix, column: IndexValue, total: Value
) -> Value:
    value = k.b.real(_remainder(k, a, factor, column, column, total))
    return k.b.intrinsic("sqrt", value)


def _remainder(
    k: KernelContext,
    a: _Matrix,
    factor: _Matrix,
    row: IndexValue,
    column: IndexValue,
    total: Value,
) -> Value:
    """Return a[row, column] minus the products of what is known of both rows."""
    b, dtype = k.b, a.array.dtype
    b.store(total, 0, a.load(row, column))
    with k.body.loop(0, column) as other:
        left, right = factor.load(row, other), factor.load(column, other)
        if dtype.is_complex:
            right = b.complex(b.real(right), b.fneg(b.imag(right)))
        b.store(total, 0, b.fsub(b.load(total, dtype, 0), b.fmul(left, right)))
    return b.load(total, dtype, 0)


SOLVE = Emitter("triangular-solve", can_emit_solve, emit_solve, no_split, operand_bytes)
CHOLESKY = Emitter("cholesky", can_emit_cholesky, emit_cholesky, no_split, operand_bytes)
