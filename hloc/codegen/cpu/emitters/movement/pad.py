"""pad: the elements of the operand are written to their places, and the padding around them.

Threads share the outermost dimension. Loops over the result would test where each element is from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from hloc.codegen.builder.index import loop_order
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.cpu.emitters.movement.rows import write_row
from hloc.codegen.kernels.boundaries import boundaries
from hloc.codegen.kernels.context import KernelContext, root_of
from hloc.codegen.kernels.emitter import KernelPlan
from hloc.codegen.kernels.lanes import lanes_of, mark_final, pads_only
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass

_MOST_SINGLE = 4
"""Most elements of padding beside a row that are written without a loop."""


def plan(inst: Instruction) -> KernelPlan[KernelContext] | None:
    """Plan a pad that removes nothing, of an operand that is computed in one way everywhere.

    The loop emitter splits a loop over a single dimension as well.
    """
    root = root_of(inst)
    if not pads_only(root) or not root.operands[0].array.elements:
        return None
    order, dims = loop_order(root.array), root.operands[0].array.dims
    is_spread = any(p.interior for p in root.attributes.padding)
    if not order or (len(order) == 1 and not is_spread):
        return None
    for dim, padding in enumerate(root.attributes.padding):
        own = {padding.low, padding.low + dims[dim]}
        if not own.issuperset(boundaries(inst, dim)):
            return None
    extent = root.array.dims[order[0]] if len(order) > 1 else 1
    return KernelPlan(partial(_emit, order), extent)


def _emit(order: Sequence[int], k: KernelContext) -> None:
    """Write the loops."""
    index: list[IndexValue] = [0] * len(k.root.array.dims)
    _Pad(k, order, k.read(k.root.operands[1], ())).write(0, index, index)
    mark_final(k)


@dataclass(frozen=True, slots=True)
class _Pad:
    """The loops of one kernel, over the dimensions in `order`, slowest first."""

    k: KernelContext
    order: Sequence[int]
    padding: Value

    def write(self, depth: int, place: Sequence[IndexValue], source: Sequence[IndexValue]) -> None:
        """Write the part of the result at `place`, whose operand is at `source`.

        Indices of dimensions before number `depth` are known.
        """
        m, dim, root = self.k.math, self.order[depth], self.k.root
        padding, size = root.attributes.padding[dim], root.array.dims[dim]
        low, step = padding.low, padding.interior + 1
        count = root.operands[0].array.dims[dim]
        high = low + step * (count - 1) + 1
        if depth == len(self.order) - 1:
            for begin, end in ((0, low), (high, size)) if step == 1 else ((0, size),):
                self._fill(depth, place, begin, end)
            self._row(place, source, low, step)
            return
        begin, end = (self.k.begin, self.k.end) if depth == 0 else (0, size)
        first, stop = (self._position(x, low, step) for x in (begin, end))
        self._fill(depth, place, begin, m.minimum(end, m.add(m.mul(first, step), low)))
        inside, within = list(place), list(source)
        with self.k.body.loop(first, m.minimum(stop, count)) as position:
            within[dim] = position
            inside[dim] = start = m.add(m.mul(position, step), low)
            self.write(depth + 1, inside, within)
            if step > 1:
                self._fill(depth, place, m.add(start, 1), m.minimum(end, m.add(start, step)))
        self._fill(depth, place, m.maximum(begin, high), end)

    def _position(self, at: IndexValue, low: int, step: int) -> IndexValue:
        """Return the first position in the operand whose place is not before `at`."""
        m = self.k.math
        return m.div(m.maximum(m.add(m.sub(at, low), step - 1), 0), step)

    def _row(
        self, place: Sequence[IndexValue], source: Sequence[IndexValue], low: int, step: int
    ) -> None:
        """Write the elements of a row of the operand."""
        k, last = self.k, self.order[-1]

        def store(at: Sequence[IndexValue], value: Value) -> None:
            index = list(place)
            index[last] = k.math.add(k.math.mul(at[last], step), low)
            k.output.store(k.math, tuple(index), value)

        operand = k.root.operands[0]
        if step == 1 and operand.array.dims[last] > 1:
            write_row(k, operand, last, source, store)
            return
        k.is_final = False
        index = list(source)
        with k.body.loop(0, operand.array.dims[last]) as index[last]:
            store(index, k.read(operand, tuple(index)))

    def _fill(
        self, depth: int, place: Sequence[IndexValue], begin: IndexValue, end: IndexValue
    ) -> None:
        """Write the padding from `begin` to `end` of dimension number `depth`, and all within."""
        k, (*slow, last) = self.k, self.order
        inner, index = slow[depth:], list(place)
        with k.body.nest(k.root.array.dims, inner, (begin, end)) as at:
            for dim in inner:
                index[dim] = at[dim]
            row = (begin, end) if not inner else (0, k.root.array.dims[last])
            with self._positions(*row) as index[last]:
                k.output.store(k.math, tuple(index), self.padding)

    @contextmanager
    def _positions(self, begin: IndexValue, end: IndexValue) -> Iterator[IndexValue]:
        """Run the region for the positions of a row, in vectors if there are many."""
        lanes, known = lanes_of(self.k), isinstance(begin, int) and isinstance(end, int)
        size = end - begin if known else 0  # type: ignore[operator]
        if lanes is None or size < lanes.count:
            self.k.is_final = self.k.is_final and known and size <= _MOST_SINGLE
            with self.k.body.loop(begin, end) as position:
                yield position
            return
        m = self.k.math
        with self.k.body.loop(0, size, lanes.count) as offset, lanes.inside():
            yield lanes.at(m.add(begin, m.minimum(offset, size - lanes.count)))
