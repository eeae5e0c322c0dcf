"""Unroll select-and-scatter of small windows into elementwise instructions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

from hloc.dtypes import S32
from hloc.ir.attributes import Window
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.ops.builder import Builder
from hloc.opt.expander import Expander, is_static
from hloc.opt.scalar_body import applied, is_elementwise_body
from hloc.opt.windows.regrouping import Regrouping, regrouping_of


@dataclass(frozen=True)
class SelectAndScatterUnroller(Expander):
    """Replace a `select-and-scatter` whose windows have up to `max_positions` elements.

    Compares the strided slices of the operand, one per position in a window, to find the position
    each window selects. Pads with interior padding then move the source to the selected positions,
    and the results are folded. Needs an associative scatter computation (regrouping.py) and
    reassociates sums of floats. Cost: O(positions) instructions.
    """

    acts_on = frozenset({"select-and-scatter"})
    max_positions: int = 16

    def when(self, inst: Instruction) -> bool:
        window: Window | None = inst.attributes.window
        if window is None or not is_static(inst):
            return False
        positions = prod(d.size for d in window.dimensions)
        dilated = any(d.base_dilation != 1 for d in window.dimensions)
        empty = any(0 in operand.array.dims for operand in inst.operands)
        return positions <= self.max_positions and not dilated and not empty and _is_plain(inst)

    def expand(self, inst: Instruction) -> Instruction:
        b = Builder(inst.computation)
        windows = _Windows(b, inst)
        regrouping = regrouping_of(inst.called[1])
        assert regrouping is not None
        selected = _selected(windows)
        return _scattered(windows, regrouping, selected)


def _is_plain(inst: Instruction) -> bool:
    """True if the computations are known and all types are one, in which sums are not rounded."""
    select, scatter = inst.called
    dtype = inst.array.dtype
    regrouping = regrouping_of(scatter)
    return (
        is_elementwise_body(select)
        and regrouping is not None
        and regrouping.types == (dtype,)
        and all(i.array.dtype is dtype for i in (*inst.operands, *select.parameters))
    )


@dataclass(frozen=True, slots=True)
class _Windows:
    """The windows of one instruction; a position is an offset per dimension."""

    b: Builder
    inst: Instruction

    @property
    def window(self) -> Window:
        found: Window = self.inst.attributes.window
        return found

    @property
    def places(self) -> list[tuple[int, ...]]:
        """Offsets in a window, row-major."""
        return list(product(*(range(d.size) for d in self.window.dimensions)))

    @property
    def counts(self) -> tuple[int, ...]:
        """Sizes of the array of windows."""
        return self.inst.operands[1].array.dims

    def values(self, padded: Instruction, place: Sequence[int]) -> Instruction:
        """Return the element at position `place` of every window."""
        starts, limits, strides = [], [], []
        for at, count, d in zip(place, self.counts, self.window.dimensions, strict=True):
            start = at * d.window_dilation
            starts.append(start)
            limits.append(start + (count - 1) * d.stride + 1)
            strides.append(d.stride)
        return self.b.slice(padded, starts, limits, strides)

    def spread(self, values: Instruction, fill: Instruction, place: Sequence[int]) -> Instruction:
        """Return `values`, one per window, at their elements of the operand, else `fill`."""
        low, high, inner = [], [], []
        dims = self.inst.array.dims
        for at, count, size, d in zip(
            place, self.counts, dims, self.window.dimensions, strict=True
        ):
            first = at * d.window_dilation - d.pad_low
            low.append(first)
            high.append(size - (first + (count - 1) * d.stride + 1))
            inner.append(d.stride - 1)
        return self.b.pad(values, fill, low, high, inner)

    def inside(self, place: Sequence[int]) -> Instruction | None:
        """Return a mask of the windows whose element at `place` is in the operand; None for all."""
        b, found = self.b, None
        dims = self.inst.array.dims
        for dim, (at, d) in enumerate(zip(place, self.window.dimensions, strict=True)):
            first = at * d.window_dilation - d.pad_low
            last = first + (self.counts[dim] - 1) * d.stride
            if first >= 0 and last < dims[dim]:
                continue
            steps = b.multiply(b.iota(S32, self.counts, dim), self.number(d.stride))
            index = b.add(steps, self.number(first))
            both = b.logical_and(
                b.compare(index, self.number(0), "GE"),
                b.compare(index, self.number(dims[dim]), "LT"),
            )
            found = both if found is None else b.logical_and(found, both)
        return found

    def number(self, value: int) -> Instruction:
        """Return `value` for every window."""
        return self.b.broadcast(self.b.constant(value, S32), self.counts)


def _selected(windows: _Windows) -> Instruction:
    """Return the number of the position that each window selects, -1 if it is empty."""
    b, inst = windows.b, windows.inst
    operand = inst.operands[0]
    dims = windows.window.dimensions
    if any(d.pad_low or d.pad_high for d in dims):
        fill = b.constant(0, operand.array.dtype)
        operand = b.pad(operand, fill, [d.pad_low for d in dims], [d.pad_high for d in dims])
    none = windows.number(-1)
    first, *others = windows.places
    best, inside = windows.values(operand, first), windows.inside(first)
    may_be_empty = inside is not None
    where = windows.number(0) if inside is None else b.select(inside, windows.number(0), none)
    for number, place in enumerate(others, 1):
        value, inside = windows.values(operand, place), windows.inside(place)
        (keeps,) = applied(b, inst.called[0], (best, value))
        takes = b.logical_not(keeps)
        if may_be_empty:
            takes = b.logical_or(b.compare(where, none, "EQ"), takes)
        if inside is not None:
            takes = b.logical_and(takes, inside)
        best = b.select(takes, value, best)
        where = b.select(takes, windows.number(number), where)
    return where


def _scattered(windows: _Windows, regrouping: Regrouping, selected: Instruction) -> Instruction:
    """Return the folds of the sources of each element of the operand."""
    b, inst = windows.b, windows.inst
    _, source, init = inst.operands
    (neutral,) = regrouping.identities(b, (init,))
    nothing = b.broadcast(neutral, windows.counts)
    found = b.broadcast(init, inst.array.dims)
    for number, place in enumerate(windows.places):
        mine = b.compare(selected, windows.number(number), "EQ")
        part = windows.spread(b.select(mine, source, nothing), neutral, place)
        (found,) = regrouping.combined(b, [part], [found])
    return found
