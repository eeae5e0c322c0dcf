"""Loops over the positions of a convolution's result, and the part of the window that is inside.

Positions along the last dimension whose windows lie inside the input are computed in blocks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack

from hloc.analysis.small_groups import SPATIAL_DIMS
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import Value
from hloc.codegen.cpu.emitters.convolution.grouped_arguments import FEATURES, OUTER, SPATIAL
from hloc.codegen.cpu.emitters.routine_writer import RoutineWriter, argument, named_parameters
from hloc.dtypes import PRED, S64, DType
from hloc.lazy_dataclass import dataclass

PARAMETERS = (
    *named_parameters("lhs rhs"),
    "ptr %out",
    *named_parameters(numbers="begin end"),
    "ptr noalias readonly %numbers",
    "ptr %finish",
    "ptr %context",
)


@dataclass(frozen=True, slots=True)
class Reach:
    """The part of the window along one dimension that is inside, for one position of the result.

    Attributes:
        low, high: range of window elements.
        step, rhs: strides in input and kernel.
    """

    low: IndexValue
    high: IndexValue
    step: IndexValue
    rhs: IndexValue


@dataclass(frozen=True, slots=True)
class Block:
    """Positions of the result that are computed together.

    Attributes:
        source, to: address of the first one in input and result.
        inputs, results: offsets of the others.
        reaches: the part of the window along the outer dimensions.
        line: the part along the last dimension.
    """

    source: IndexValue
    to: IndexValue
    inputs: tuple[IndexValue, ...]
    results: tuple[IndexValue, ...]
    reaches: tuple[Reach, ...]
    line: Reach


@dataclass(frozen=True, slots=True)
class _Pieces:
    """A partition of the last dimension: single positions, whole blocks, single positions.

    Attributes:
        first, positions: the first position, and number of positions.
        before, blocks: number of single positions before the blocks, and of blocks.
        count: number of all pieces.
    """

    first: IndexValue
    positions: IndexValue
    before: IndexValue
    blocks: IndexValue
    count: IndexValue


class LineLoops(ABC):
    """Writes the loops of one routine around those of the last dimension.

    Attributes:
        features: those that vectors hold.
    """

    def __init__(self, w: RoutineWriter, dtype: DType) -> None:
        self.w, self.fn, self.body, self.math, self.dtype = w, w.fn, w.body, w.math, dtype
        self.features: Value

    @abstractmethod
    def prepare(self, d: Sequence[Value]) -> None:
        """Compute what all lines along the last dimension share; `d` are its numbers."""

    @abstractmethod
    def line(
        self,
        d: Sequence[Value],
        part: IndexValue,
        places: tuple[IndexValue, IndexValue],
        reaches: Sequence[Reach],
    ) -> None:
        """Write the code of a line of positions.

        Args:
            d: the numbers of the last dimension.
            part: how many features go through a line together.
            places: offsets of the line in input and result.
            reaches: the part of the window along the outer dimensions.
        """

    def write(self) -> None:
        """Write the loops over the lines of the result."""
        w, body, math = self.w, self.body, self.math
        count = FEATURES + OUTER
        features, part, size, step, rest, lhs, out = (w.offset("%numbers", i) for i in range(count))
        self.features = features
        dims = [
            [w.offset("%numbers", count + d * SPATIAL + i) for i in range(SPATIAL)]
            for d in range(SPATIAL_DIMS)
        ]
        *outer, last = dims
        self.prepare(last)
        with ExitStack() as stack:
            n = stack.enter_context(body.loop(*self.thread_range(size, step, rest)))
            source, to = math.mul(n, lhs), math.mul(n, out)
            reaches: list[Reach] = []
            for d in outer:
                i = stack.enter_context(body.loop(*self.thread_range(*d[:3])))
                reach, start = self.reach(d, i)
                reaches.append(reach)
                source = math.add(source, math.mul(start, d[3]))
                to = math.add(to, math.mul(i, d[4]))
            self.line(last, part, (source, to), reaches)

    def thread_range(
        self, size: IndexValue, step: IndexValue, rest: IndexValue
    ) -> tuple[IndexValue, IndexValue]:
        """Return a thread's part of a dimension."""
        math = self.math
        end = math.add(math.mul(argument("%end"), step), rest)
        return math.mul(argument("%begin"), step), math.minimum(size, end)

    def reach(self, d: Sequence[Value], i: IndexValue) -> tuple[Reach, IndexValue]:
        """Return the reach at index `i`, and the input offset of the window, perhaps negative.

        Divisions run only for the few windows that are not completely inside.
        """
        math, fn = self.math, self.fn
        _, _, _, lhs, _, held, window, stride, pad, dilation, rhs = d
        start = math.sub(math.mul(i, stride), pad)
        last = math.add(start, math.mul(math.sub(window, 1), dilation))
        slots = [fn.allocate("i64") for _ in range(2)]
        fn.line(f"store i64 0, ptr {slots[0]}")
        fn.line(f"store i64 {window.text}, ptr {slots[1]}")
        is_before = math.compare("LT", start, 0)
        is_past = math.compare("GE", last, held)
        with self.body.when(self.w.b.or_(is_before, is_past)):
            missing = math.maximum(math.sub(0, start), 0)
            present = math.maximum(math.sub(held, start), 0)
            low = self.divided(missing, dilation)
            high = math.minimum(self.divided(present, dilation), window)
            fn.line(f"store i64 {math.value(low).text}, ptr {slots[0]}")
            fn.line(f"store i64 {math.value(high).text}, ptr {slots[1]}")
        low, high = (Value(S64, fn.value(f"load i64, ptr {slot}")) for slot in slots)
        return Reach(low, high, math.mul(dilation, lhs), rhs), start

    def divided(self, x: IndexValue, y: Value) -> Value:
        """Return x / y, rounded up."""
        math = self.math
        above = math.value(math.sub(math.add(x, y), 1)).text
        return Value(S64, self.fn.index_arithmetic("div", above, y.text))

    def moved_to(self, pointer: str, place: IndexValue) -> str:
        """Return the address of an element, a number in a register."""
        moved = self.w.b.moved(pointer_value(pointer), self.dtype, self.math.value(place))
        return moved.text

    def address(self, pointer: str, place: IndexValue) -> str:
        """Return the address of an element."""
        return self.w.b.address(pointer_value(pointer), self.dtype, place)


class PositionLoops(LineLoops):
    """Writes the loops over the positions of a line, some of them in blocks.

    Attributes:
        together: positions along the last dimension that are computed together: they share loads of
            the kernel, if their windows lie inside the input.
        limits: the part of the features that goes through a line together.
        pieces: the partition of a line.
    """

    def __init__(self, w: RoutineWriter, dtype: DType, together: int = 4) -> None:
        super().__init__(w, dtype)
        self.together = together
        self.limits: tuple[IndexValue, IndexValue] = (0, 0)
        self.pieces: _Pieces

    @abstractmethod
    def write_block(self, block: Block) -> None:
        """Write the code of a block of positions."""

    def prepare(self, d: Sequence[Value]) -> None:
        self.pieces = self._pieces(d)

    def line(
        self,
        d: Sequence[Value],
        part: IndexValue,
        places: tuple[IndexValue, IndexValue],
        reaches: Sequence[Reach],
    ) -> None:
        """Run over the features and the pieces of a line, then call the epilogue."""
        math, pieces = self.math, self.pieces
        with self.body.loop(0, self.features, part) as begin:
            self.limits = begin, math.minimum(math.add(begin, part), self.features)
            with self.body.loop(0, pieces.count) as piece:
                self._piece(pieces, piece, d, places, reaches)
        with self.body.when(Value(PRED, self.fn.value("icmp ne ptr %finish, null"))):
            self._finish(pieces, d, places[1])

    def _finish(self, pieces: _Pieces, d: Sequence[Value], to: IndexValue) -> None:
        """Call the epilogue of a thread's part of the last dimension."""
        math = self.math
        start = math.add(to, math.mul(pieces.first, d[4]))
        numbers = [start, pieces.positions, self.features]
        texts = ", ".join([f"i64 {math.value(number).text}" for number in numbers])
        self.fn.line(f"call void %finish(ptr %context, {texts})")

    def _pieces(self, d: Sequence[Value]) -> _Pieces:
        """Return the partition of a thread's part of the last dimension."""
        math = self.math
        first, stop = self.thread_range(*d[:3])
        _, _, _, _, _, held, window, stride, pad, dilation, _ = d
        inside = math.maximum(first, self.divided(math.maximum(pad, 0), stride))
        reach = math.mul(math.sub(window, 1), dilation)
        room = math.maximum(math.sub(math.add(held, pad), reach), 0)
        begin = math.minimum(inside, stop)
        past = math.minimum(stop, self.divided(room, stride))
        blocks = math.div(math.maximum(math.sub(past, begin), 0), self.together)
        after = math.sub(math.sub(stop, begin), math.mul(blocks, self.together))
        before = math.sub(begin, first)
        count = math.add(math.add(before, blocks), after)
        return _Pieces(first, math.sub(stop, first), before, blocks, count)

    def _piece(
        self,
        pieces: _Pieces,
        number: IndexValue,
        d: Sequence[Value],
        places: tuple[IndexValue, IndexValue],
        reaches: Sequence[Reach],
    ) -> None:
        """Write one position, or a block of them."""
        math = self.math
        behind = math.maximum(math.sub(number, pieces.before), 0)
        passed = math.minimum(behind, pieces.blocks)
        i = math.add(math.add(pieces.first, number), math.mul(passed, self.together - 1))
        is_behind = math.compare("GE", number, pieces.before)
        is_block = self.w.b.and_(is_behind, math.compare("LT", behind, pieces.blocks))
        is_alone = self.w.b.not_(is_block)
        with self.body.when(is_block):
            self._places(self.together, d, i, places, reaches)
        with self.body.when(is_alone):
            self._places(1, d, i, places, reaches)

    def _places(
        self,
        count: int,
        d: Sequence[Value],
        i: IndexValue,
        places: tuple[IndexValue, IndexValue],
        reaches: Sequence[Reach],
    ) -> None:
        """Write `count` positions from index `i` of the last dimension."""
        math = self.math
        _, _, _, lhs, out, _, window, stride, pad, dilation, rhs = d
        if count == 1:
            reach, start = self.reach(d, i)
        else:
            reach = Reach(0, window, math.mul(dilation, lhs), rhs)
            start = math.sub(math.mul(i, stride), pad)
        self.write_block(
            Block(
                math.add(places[0], math.mul(start, lhs)),
                math.add(places[1], math.mul(i, out)),
                tuple(math.mul(math.mul(stride, lhs), place) for place in range(count)),
                tuple(math.mul(out, place) for place in range(count)),
                tuple(reaches),
                reach,
            )
        )
