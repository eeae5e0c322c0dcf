"""triangular-solve by substitution in tiles, cholesky by columns; matrices one after another."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value, is_narrow_float
from hloc.codegen.kernels.context import KernelContext, root_of
from hloc.codegen.kernels.emitter import Emitter, KernelPlan
from hloc.codegen.kernels.operands import operand_arrays, operand_bytes
from hloc.dtypes import F32, PRED, DType
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass

_STRIP = 256
"""Most right-hand sides that are solved together."""

_TILE = 4
"""Rows that share one pass over solved ones, and solved rows per pass."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix of the batch, perhaps transposed and conjugated.

    `array` is an instruction whose elements are computed where they are read, or an array.
    """

    k: KernelContext
    array: Instruction | IrArray
    batch: Sequence[IndexValue]
    transposed: bool
    conjugated: bool = False

    def _index(self, row: IndexValue, column: IndexValue) -> tuple[IndexValue, ...]:
        pair = (column, row) if self.transposed else (row, column)
        return (*self.batch, *pair)

    def load(self, row: IndexValue, column: IndexValue) -> Value:
        """Return an element."""
        array, index = self.array, self._index(row, column)
        if isinstance(array, IrArray):
            return self._conjugate(array.load(self.k.math, index))
        return self._conjugate(self.k.read(array, index))

    def store(self, row: IndexValue, column: IndexValue, value: Value) -> None:
        """Write an element of an array."""
        assert isinstance(self.array, IrArray)
        self.array.store(self.k.math, self._index(row, column), self._conjugate(value))

    def _conjugate(self, value: Value) -> Value:
        b = self.k.b
        if not (self.conjugated and value.dtype.is_complex):
            return value
        return b.complex(b.real(value), b.fneg(b.imag(value)))


def _work_dtype(root: Instruction) -> DType:
    dtype = root.array.dtype
    return F32 if is_narrow_float(dtype) else dtype


def _sizes(root: Instruction) -> tuple[int, int]:
    """Return the unknowns of a right-hand side, and the number of right-hand sides."""
    *_, rows, columns = root.array.dims
    return (rows, columns) if root.attributes.left_side else (columns, rows)


def plan_solve(inst: Instruction) -> KernelPlan[KernelContext] | None:
    """Plan a triangular-solve: a loop over the batch, scratch memory for a strip of unknowns."""
    root = root_of(inst)
    computed, (size, count) = operand_bytes(inst), _sizes(root)
    unknowns = size * min(count, _STRIP) * _work_dtype(root).storage_bytes
    return KernelPlan(partial(_solve, computed), _batch(root), computed + unknowns, computed)


def plan_cholesky(inst: Instruction) -> KernelPlan[KernelContext] | None:
    """Plan a cholesky: a loop over the batch."""
    root = root_of(inst)
    computed = operand_bytes(inst)
    return KernelPlan(_factor, _batch(root), computed, computed)


def _batch(root: Instruction) -> int:
    """Return the size of the outermost batch dimension."""
    dims = root.array.dims
    return dims[0] if len(dims) > 2 else 1


def _solve(scratch_offset: int, k: KernelContext) -> None:
    """Solve for a strip of right-hand sides at a time."""
    a = k.root.attributes
    matrix, right = operand_arrays(k)
    # x op(a) = b is op(a)^T x^T = b^T.
    flipped = (a.transpose_a in ("TRANSPOSE", "ADJOINT")) == a.left_side
    size, count = _sizes(k.root)
    batch_dims = right.dims[:-2]
    with k.body.nest(batch_dims, range(len(batch_dims)), (k.begin, k.end)) as batch:
        solver = _Solver(
            k,
            Matrix(k, matrix, batch, flipped, a.transpose_a == "ADJOINT"),
            k.scratch_array(scratch_offset, _work_dtype(k.root), (size, min(count, _STRIP))),
            backwards=a.lower == flipped,
        )
        source = Matrix(k, right, batch, not a.left_side)
        target = Matrix(k, k.output, batch, not a.left_side)
        with k.body.loop(0, count, _STRIP) as first:
            width: IndexValue = min(count, _STRIP)
            if count % _STRIP and count > _STRIP:
                width = k.math.minimum(_STRIP, k.math.sub(count, first))
            solver.solve(source, target, first, width)


class _Solver:
    """Solves for one strip; its unknowns are rows of scratch memory in the order of substitution.

    The products with all solved rows are subtracted from a few rows at a time.
    """

    def __init__(
        self, k: KernelContext, left: Matrix, unknowns: IrArray, *, backwards: bool
    ) -> None:
        self.k, self.b, self.math, self.body = k, k.b, k.math, k.body
        self.left, self.x, self.backwards = left, unknowns, backwards
        (self.size, strip), self.dtype = unknowns.dims, unknowns.dtype
        self.slots = [k.b.allocate(self.dtype, strip) for _ in range(_TILE)]

    def solve(self, source: Matrix, target: Matrix, first: IndexValue, width: IndexValue) -> None:
        """Read the right-hand sides starting at `first`, and write the unknowns."""
        self._copy(source, first, width)
        whole = self.size // _TILE * _TILE
        with self.body.loop(0, whole, _TILE) as row:
            self._rows([self.math.add(row, i) for i in range(_TILE)], width)
        with self.body.loop(whole, self.size) as row:
            self._rows([row], width)
        with self.body.loop(0, self.size) as row, self.body.loop(0, width) as j:
            value = self.b.convert(self.x.load(self.math, (row, j)), self.k.output.dtype)
            target.store(self._place(row), self.math.add(first, j), value)

    def _copy(self, source: Matrix, first: IndexValue, width: IndexValue) -> None:
        with self.body.loop(0, self.size) as row, self.body.loop(0, width) as j:
            value = source.load(self._place(row), self.math.add(first, j))
            self.x.store(self.math, (row, j), self.b.convert(value, self.dtype))

    def _place(self, row: IndexValue) -> IndexValue:
        """Return the row of the matrix that is number `row` in the order of substitution."""
        return self.math.sub(self.size - 1, row) if self.backwards else row

    def _factor(self, row: IndexValue, other: IndexValue) -> Value:
        return self.b.convert(self.left.load(self._place(row), self._place(other)), self.dtype)

    def _rows(self, rows: list[IndexValue], width: IndexValue) -> None:
        """Solve consecutive rows; all rows before them are solved."""
        m, b, known = self.math, self.b, rows[0]
        slots = self.slots[: len(rows)]
        with self.body.loop(0, width) as j:
            for row, slot in zip(rows, slots, strict=True):
                b.store(slot, j, self.x.load(m, (row, j)))
        whole = m.sub(known, m.rem(known, _TILE))
        with self.body.loop(0, whole, _TILE) as other:
            self._subtract(rows, slots, [m.add(other, i) for i in range(_TILE)], width)
        with self.body.loop(whole, known) as other:
            self._subtract(rows, slots, [other], width)
        for number, (row, slot) in enumerate(zip(rows, slots, strict=True)):
            if number:
                self._subtract([row], [slot], rows[:number], width)
            pivot = None if self.k.root.attributes.unit_diagonal else self._factor(row, row)
            with self.body.loop(0, width) as j:
                value = b.load(slot, self.dtype, j)
                self.x.store(m, (row, j), value if pivot is None else b.fdiv(value, pivot))

    def _subtract(
        self,
        rows: list[IndexValue],
        slots: list[Value],
        others: list[IndexValue],
        width: IndexValue,
    ) -> None:
        """Subtract the products with the unknowns `others` from `rows`, which are in `slots`."""
        b = self.b
        factors = [[self._factor(row, other) for other in others] for row in rows]
        with self.body.loop(0, width) as j:
            known = [self.x.load(self.math, (other, j)) for other in others]
            for slot, line in zip(slots, factors, strict=True):
                value = b.load(slot, self.dtype, j)
                for factor, x in zip(line, known, strict=True):
                    value = b.fsub(value, b.fmul(factor, x))
                b.store(slot, j, value)


def _factor(k: KernelContext) -> None:
    """Factor each matrix column by column; NaN everywhere if a pivot is not positive."""
    b = k.b
    (array,) = operand_arrays(k)
    upper = not k.root.attributes.lower
    *batch_dims, size, _ = array.dims
    good = b.allocate(PRED)
    total = b.allocate(array.dtype)
    with k.body.nest(batch_dims, range(len(batch_dims)), (k.begin, k.end)) as batch:
        a = Matrix(k, array, batch, upper, upper)
        factor = Matrix(k, k.output, batch, upper, upper)
        b.store(good, 0, b.const(PRED, True))
        with k.body.loop(0, size) as column:
            square = remainder(k, a, factor, column, column, total)
            pivot = checked_pivot(k, square, good)
            factor.store(column, column, pivot)
            with k.body.loop(k.math.add(column, 1), size) as row:
                value = remainder(k, a, factor, row, column, total)
                factor.store(row, column, b.fdiv(value, pivot))
                factor.store(column, row, b.const(array.dtype, 0))
        bad = b.not_(b.load(good, PRED, 0))
        with k.body.when(bad), k.body.nest([size, size], [0, 1]) as (row, column):
            factor.store(row, column, b.const(array.dtype, float("nan")))


def checked_pivot(k: KernelContext, square: Value, good: Value) -> Value:
    """Return the root of a diagonal element; `good` becomes false unless it is positive."""
    b = k.b
    root = b.intrinsic("sqrt", b.real(square))
    positive = b.compare("GT", root, b.const(root.dtype, 0))
    finite = b.compare("LT", root, b.const(root.dtype, float("inf")))
    b.store(good, 0, b.and_(b.load(good, PRED, 0), b.and_(positive, finite)))
    return b.convert(root, square.dtype)


def remainder(
    k: KernelContext,
    a: Matrix,
    factor: Matrix,
    row: IndexValue,
    column: IndexValue,
    total: Value,
) -> Value:
    """Return a[row, column] minus the products of what is known of both rows; `total` is a slot."""
    b, dtype = k.b, k.output.dtype
    b.store(total, 0, a.load(row, column))
    with k.body.loop(0, column) as other:
        left, right = factor.load(row, other), factor.load(column, other)
        if dtype.is_complex:
            right = b.complex(b.real(right), b.fneg(b.imag(right)))
        b.store(total, 0, b.fsub(b.load(total, dtype, 0), b.fmul(left, right)))
    return b.load(total, dtype, 0)


SOLVE = Emitter("triangular-solve", plan_solve, roots=("triangular-solve",))
CHOLESKY = Emitter("cholesky", plan_cholesky, roots=("cholesky",))
