"""The routine that reduces windows of an array [batch, y, x, channels], by vectors of channels.

    fold_..._pool(from, to, init, scale, table, begin, end)

`begin` and `end` count rows of the result, of all batches. The entries of the table are those of
`TABLE`. Padding is never read: the valid part of a window is computed for every row, and within a
row for the windows at the edges. Whole windows one element apart are one window of more channels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from hloc.analysis.pools import POOLED_TYPES, Axis, Pool
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import REPRESENTATIONS, Lanes, LaneSlot, Value
from hloc.codegen.cpu.emitters.reduction.fold_routine import (
    INIT,
    Fold,
    FoldWriter,
    fold_routine,
    of_one_type,
)
from hloc.codegen.cpu.emitters.routine_writer import argument
from hloc.codegen.llvm.routine import Routines
from hloc.codegen.llvm.target import Target
from hloc.dtypes import S64

UNSCALED, MULTIPLIED, DIVIDED = range(3)
"""The operation on a result with `scale`."""

_AXIS = ("size", "count", "window", "stride", "dilation", "padding")
TABLE = ("channels", "finish", *(f"{axis}_{name}" for axis in "yx" for name in _AXIS))
"""Names of the entries of the table."""

_BLOCKS = (8, 4, 2, 1)
"""Vectors of channels whose windows are reduced at the same time."""


def table_of(pool: Pool, finish: int) -> tuple[int, ...]:
    """Return the entries of the table; `finish` is one of the three."""
    return pool.channels, finish, *_entries(pool.y), *_entries(pool.x)


def _entries(axis: Axis) -> tuple[int, ...]:
    d = axis.window
    return axis.size, axis.count, d.size, d.stride, d.window_dilation, d.pad_low


@cache
def pool_routine(fold: Fold, target: Target) -> Routines:
    """Return the function; without masks there must be at least one vector of channels."""
    kind = REPRESENTATIONS[fold.total].register
    parameters = (
        "ptr noalias readonly %from",
        "ptr noalias %to",
        INIT,
        f"{kind} %scale",
        "ptr noalias readonly %table",
        "i64 %begin",
        "i64 %end",
    )
    return fold_routine(fold, "pool", parameters, target, lambda r: _Pool(r).write())


def listed_routines(target: Target) -> Iterator[Routines]:
    """Yield the routines of all window reductions."""
    for name, types in POOLED_TYPES.items():
        for dtype in types:
            yield pool_routine(of_one_type(name, dtype), target)


class _Axis:
    """The table entries of one dimension, and the part of a window that is inside."""

    def __init__(self, r: FoldWriter, axis: str) -> None:
        self.r, self.m = r, r.math
        number = {name: r.w.offset("%table", TABLE.index(f"{axis}_{name}")) for name in _AXIS}
        self.size, self.count = number["size"], number["count"]
        self.window, self.stride = number["window"], number["stride"]
        self.dilation, self.padding = number["dilation"], number["padding"]
        self.span = self.m.mul(self.m.sub(self.window, 1), self.dilation)
        self.first, self.steps = r.b.allocate(S64), r.b.allocate(S64)

    def clip(self, position: IndexValue) -> tuple[IndexValue, IndexValue]:
        """Return where window number `position` begins inside, and how many elements are inside.

        Only windows that reach outside cost divisions.
        """
        b, m = self.r.b, self.m
        start = m.sub(m.mul(position, self.stride), self.padding)
        b.store(self.first, 0, m.value(0))
        b.store(self.steps, 0, self.window)
        is_low = m.compare("LT", start, 0)
        is_high = m.compare("GE", m.add(start, self.span), self.size)
        with self.r.body.when(b.or_(is_low, is_high)):
            first, steps = self._inside(start)
            b.store(self.first, 0, m.value(first))
            b.store(self.steps, 0, m.value(steps))
        begin = m.add(start, m.mul(b.load(self.first, S64, 0), self.dilation))
        return begin, b.load(self.steps, S64, 0)

    def neighbours(self) -> tuple[IndexValue, Value]:
        """Return the first whole window, and how many whole ones one element apart follow it."""
        b, m = self.r.b, self.m
        first = m.minimum(m.maximum(self.padding, 0), self.count)
        end = m.minimum(m.add(m.sub(self.size, self.span), self.padding), self.count)
        following = m.maximum(m.sub(m.sub(end, first), 1), 0)
        return first, b.select(m.compare("EQ", self.stride, 1), m.value(following), m.value(0))

    def _inside(self, start: IndexValue) -> tuple[IndexValue, IndexValue]:
        """Return the first element of a window that is inside, and the number of these."""
        m = self.m
        first = self._steps(m.sub(0, start))
        end = m.minimum(self.window, self._steps(m.sub(self.size, start)))
        return first, m.maximum(m.sub(end, first), 0)

    def _steps(self, distance: IndexValue) -> IndexValue:
        """Return the number of window elements within `distance`, rounded up."""
        raised = self.m.add(self.m.maximum(distance, 0), self.m.sub(self.dilation, 1))
        return _quotient(self.r, raised, self.dilation)


def _quotient(r: FoldWriter, x: IndexValue, y: Value) -> Value:
    """Return x / y of numbers that are not negative."""
    return Value(S64, r.w.fn.value(f"udiv i64 {r.math.value(x).text}, {y.text}"))


class _Pool:
    """Writes the loops."""

    def __init__(self, r: FoldWriter) -> None:
        self.r, self.b, self.body, self.math = r, r.b, r.body, r.math
        self.channels = r.w.offset("%table", TABLE.index("channels"))
        self.finish = r.w.offset("%table", TABLE.index("finish"))
        self.y, self.x = _Axis(r, "y"), _Axis(r, "x")
        m = self.math
        self.row = m.mul(self.x.size, self.channels)
        self.y_step = m.mul(self.y.dilation, self.row)
        self.x_step = m.mul(self.x.dilation, self.channels)
        self.slots = [self.b.lane_slot(r.fold.total) for _ in range(_BLOCKS[0])]

    def write(self) -> None:
        """Write the loops over rows of the result, and over windows of each."""
        b, m, y, x = self.b, self.math, self.y, self.x
        (whole, following), none = x.neighbours(), m.value(0)
        with self.body.loop(argument("%begin"), argument("%end")) as row:
            batch = _quotient(self.r, row, y.count)
            begin, rows = y.clip(m.sub(row, m.mul(batch, y.count)))
            source = m.mul(m.add(m.mul(batch, y.size), begin), self.row)
            with self.body.loop(0, m.sub(x.count, following)) as number:
                is_after = m.compare("GT", number, whole)
                position = m.add(number, b.select(is_after, following, none))
                is_first = m.compare("EQ", number, whole)
                windows = m.add(b.select(is_first, following, none), 1)
                place, steps = x.clip(position)
                self._windows(
                    m.add(source, m.mul(place, self.channels)),
                    rows,
                    steps,
                    m.mul(m.add(m.mul(row, x.count), position), self.channels),
                    m.mul(windows, self.channels),
                )

    def _windows(
        self,
        place: IndexValue,
        rows: IndexValue,
        steps: IndexValue,
        result: IndexValue,
        width: IndexValue,
    ) -> None:
        """Reduce `width` windows of single elements, the first at `place`: `steps` in `rows`."""
        r, m = self.r, self.math
        begin: IndexValue = 0
        for block in _BLOCKS:
            size = block * r.lanes
            end = m.sub(width, m.rem(width, size))
            with self.body.loop(begin, end, size) as channel:
                self._block(m.add(place, channel), rows, steps, m.add(result, channel), block)
            begin = end
        rest = m.rem(width, r.lanes)
        with self.body.when(m.compare("GT", rest, 0)):
            # The last vector is masked, or overlaps the one before.
            mask = r.mask(rest) if r.has_masks else None
            last = begin if mask else m.sub(width, r.lanes)
            self._block(m.add(place, last), rows, steps, m.add(result, last), 1, mask)

    def _block(
        self,
        place: IndexValue,
        rows: IndexValue,
        steps: IndexValue,
        result: IndexValue,
        block: int,
        mask: Lanes | None = None,
    ) -> None:
        """Reduce the windows of some vectors of channels from `place` on."""
        r, b, m = self.r, self.b, self.math
        slots = self.slots[:block]
        for slot in slots:
            b.store(slot, 0, r.init)
        with self.body.loop(0, rows) as row:
            line = m.add(place, m.mul(row, self.y_step))
            with self.body.loop(0, steps) as step:
                pointer = r.pointer_to(m.add(line, m.mul(step, self.x_step)))
                for number, slot in enumerate(slots):
                    if mask is not None:
                        r.add(slot, r.load_some(pointer, 0, mask))
                    else:
                        r.add(slot, r.load(pointer, number * r.lanes))
        self._finish(slots)
        for number, slot in enumerate(slots):
            value = b.convert(b.load(slot, r.fold.total, 0), r.fold.result)
            to = m.add(result, number * r.lanes)
            if mask is not None:
                r.store_some(to, value, mask)
            else:
                b.store(pointer_value("%to"), r.at(to), value)

    def _finish(self, slots: Sequence[LaneSlot]) -> None:
        """Multiply or divide results by the scale, after rounding them to the result's type."""
        r, b = self.r, self.b
        if not r.fold.total.is_float:
            return
        scale = Value(r.fold.total, "%scale")
        for kind, operate in ((MULTIPLIED, b.fmul), (DIVIDED, b.fdiv)):
            with self.body.when(self.math.compare("EQ", self.finish, kind)):
                for slot in slots:
                    found = b.convert(b.load(slot, r.fold.total, 0), r.fold.result)
                    b.store(slot, 0, operate(b.convert(found, r.fold.total), scale))
