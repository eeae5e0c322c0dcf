"""argmax and argmin of a row: a reduction of values and indices that keeps the best pair.

A first loop finds the largest key and the first block that has it, a second one the first position
in that block: both run over integers, several at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product

import numpy as np

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.elements.reductions import combine
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.lanes import lanes_of
from hloc.codegen.kernels.order_key import key_dtype, order_key
from hloc.codegen.kernels.running_sums import block_end
from hloc.dtypes import S64, DType
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import HostValue
from hloc.ir.traversal import post_order
from hloc.ops.comparators import evaluated

_BLOCK = 256
"""Elements of a block."""

_COMPARES = frozenset({"compare", "maximum", "minimum"})

_SELECTS = _COMPARES | {"parameter", "select", "and", "or", "not", "xor", "tuple"}
"""Opcodes of a recognised reducer, which only compares and selects."""


def extremum_of(root: Instruction) -> str:
    """Return "maximum" or "minimum" if `root` reduces rows to the first best value and its index.

    The index must be an iota along the only reduced dimension. "" for everything else.
    """
    if not root.is_a("reduce") or len(root.operands) != 4 or len(root.attributes.dimensions) != 1:
        return ""
    values, places = root.operands[:2]
    dtype = values.array.dtype
    if not places.is_a("iota") or dtype.is_complex or not places.array.dtype.is_integer:
        return ""
    (dim,) = root.attributes.dimensions
    if places.attributes.iota_dimension != dim:
        return ""
    if places.array.dims[dim] > 1 << (places.array.dtype.bits - 1):
        return ""
    for name, sign in (("maximum", 1), ("minimum", -1)):
        if _chooses(root.called[0], sign):
            return name
    return ""


def _chooses(reducer: Computation, sign: int) -> bool:
    """True if `reducer` keeps the larger of two pairs (the smaller if `sign` is -1), NaN first.

    It only compares values with values and indices with indices, so one sample of every order that
    two pairs can have proves it. Of equal values, and of two NaN, the lower index is kept.
    """
    if len(reducer.parameters) != 4 or not _only_compares(reducer):
        return False
    kind = reducer.parameters[0].array.dtype
    numbers = (1.0, 2.0, np.nan) if kind.is_float else (1, 2)
    samples = [
        (a, i, c, j) for a, c in product(numbers, repeat=2) for i, j in ((3, 5), (5, 3), (3, 3))
    ]
    columns = [
        np.array([sample[p.attributes.number] for sample in samples], p.array.dtype.numpy)
        for p in reducer.parameters
    ]
    values, places = _evaluated(reducer, columns)
    for (a, i, c, j), value, place in zip(samples, values, places, strict=True):
        left = a != a or (c == c and sign * a > sign * c)
        right = c != c or (a == a and sign * c > sign * a)
        if left == right:  # equal; the row is read in ascending order
            if not _same(value, a) or (i < j and place != i):
                return False
        elif not _same(value, a if left else c) or place != (i if left else j):
            return False
    return True


def _same(x: float, y: float) -> bool:
    return x == y or (x != x and y != y)


def _only_compares(reducer: Computation) -> bool:
    """True if every comparison is of two parameters that are values, or of two that are indices."""
    if not reducer.root.is_a("tuple") or len(reducer.root.operands) != 2:
        return False
    for inst in reducer.instructions:
        if inst.opcode.name not in _SELECTS:
            return False
        if inst.opcode.name in _COMPARES:
            if not all(operand.is_a("parameter") for operand in inst.operands):
                return False
            first, second = (operand.attributes.number for operand in inst.operands)
            if (first - second) % 2:
                return False
        if inst.is_a("compare") and inst.attributes.type == "TOTALORDER":
            return False
    return True


def _evaluated(reducer: Computation, columns: list[HostValue]) -> tuple[HostValue, HostValue]:
    """Return both results for every row of `columns`."""
    values: dict[Instruction, HostValue] = {}
    for inst in post_order(reducer):
        if inst.is_a("parameter"):
            values[inst] = columns[inst.attributes.number]
        elif not inst.is_a("tuple"):
            values[inst] = evaluated(inst, values)
    first, second = (values[operand] for operand in reducer.root.operands)
    return first, second


def reduce_row(k: KernelContext, root: Instruction, at: list[IndexValue], kind: str) -> list[Value]:
    """Emit the loops over one row, whose other indices are `at`; return value and index."""
    (dim,) = root.attributes.dimensions
    return _Row(k, root, at, dim, kind).results()


class _Row:
    """Writes the two loops over the row."""

    def __init__(
        self, k: KernelContext, root: Instruction, at: list[IndexValue], dim: int, kind: str
    ) -> None:
        self.k, self.b, self.math, self.body = k, k.b, k.math, k.body
        self.root, self.at, self.dim, self.kind = root, at, dim, kind
        self.values, self.places = root.operands[:2]
        self.size = self.values.array.dims[dim]
        self.dtype = key_dtype(self.values.array.dtype)
        lanes = lanes_of(k)
        self.lanes = lanes if lanes is not None and lanes.fit(self.size) else None
        if self.lanes is None:
            k.is_final = False

    def results(self) -> list[Value]:
        """Return the best pair, combined with the initial one."""
        k = self.k
        found = self._index(self._first_place(*self._best()))
        start = [k.read(operand, ()) for operand in self.root.operands[2:]]
        new = [k.read(self.values, found), k.read(self.places, found)]
        return combine(k.g, self.root.called[0], start, new)

    def _index(self, position: IndexValue) -> tuple[IndexValue, ...]:
        return (*self.at[: self.dim], position, *self.at[self.dim + 1 :])

    def _key(self, position: IndexValue) -> Value:
        """Return an integer that is larger for better values, and largest for NaN."""
        value = self.k.read(self.values, self._index(position))
        smallest = self.kind == "minimum"
        if smallest and value.dtype.is_float:
            value, smallest = self.b.fneg(value), False
        return order_key(self.b, value, total=False, descending=smallest)

    def _best(self) -> tuple[Value, Value]:
        """Return the largest key, and the start of the first block that has it."""
        b, m, dtype = self.b, self.math, self.dtype
        best, block, largest = b.allocate(dtype), b.allocate(S64), self._slot(dtype)
        b.store(best, 0, b.const(dtype, 0))
        b.store(block, 0, b.const(S64, 0))
        with self.body.loop(0, self.size, _BLOCK) as first:
            b.store(largest, 0, b.const(dtype, 0))
            with self._positions(first) as i:
                key = b.intrinsic("umax", b.load(largest, dtype, 0), self._key(i))
                b.store(largest, 0, key)
            new, old = self._folded("maximum", largest, dtype), b.load(best, dtype, 0)
            better = b.compare("GT", new, old)
            b.store(best, 0, b.select(better, new, old))
            here = b.select(better, m.value(first), b.load(block, S64, 0))
            b.store(block, 0, here)
        return b.load(best, dtype, 0), b.load(block, S64, 0)

    def _first_place(self, best: Value, block: Value) -> Value:
        """Return the first position from `block` on whose key is `best`."""
        b, m = self.b, self.math
        place = self._slot(S64)
        b.store(place, 0, b.const(S64, self.size - 1))
        with self._positions(block) as i:
            hit = b.compare("EQ", self._key(i), best)
            found = b.select(hit, m.value(i), b.const(S64, self.size - 1))
            b.store(place, 0, b.intrinsic("smin", b.load(place, S64, 0), found))
        return self._folded("minimum", place, S64)

    # ---- one element or several at a time

    @contextmanager
    def _positions(self, first: IndexValue) -> Iterator[IndexValue]:
        """Run the region for all positions of a block; some may come twice."""
        end = block_end(self.k, first, self.size, _BLOCK)
        if self.lanes is None:
            with self.body.loop(first, end) as i:
                yield i
        else:
            with self.lanes.loop(first, end, self.size) as i:
                yield i

    def _slot(self, dtype: DType) -> Value:
        return self.b.allocate(dtype) if self.lanes is None else self.lanes.b.lane_slot(dtype)

    def _folded(self, name: str, slot: Value, dtype: DType) -> Value:
        """Return the largest or smallest element of a slot."""
        found = self.b.load(slot, dtype, 0)
        return found if self.lanes is None else self.lanes.b.folded(name, found)
