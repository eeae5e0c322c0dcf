"""Convolutions of groups with few features as routines, for windows of any size.

    grouped(lhs, rhs, out, begin, end, numbers, finish, context)

Features are contiguous in all three arrays, and one vector holds the features of several groups:
the inputs of each group are broadcast to the lanes of its outputs. `numbers` are `grouped_numbers`.
Several vectors of sums stay in registers while the loop runs over the part of the window that lies
inside the input. `finish`, if not null, is called for every line of positions along the last
dimension.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import cache
from itertools import chain, product

from hloc.analysis.small_groups import SPATIAL_DIMS
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import REPRESENTATIONS, Value
from hloc.codegen.cpu.emitters.convolution.grouped_arguments import FEATURES, OUTER, SPATIAL
from hloc.codegen.cpu.emitters.routine_writer import (
    RoutineWriter,
    argument,
    named_parameters,
    routine_unit,
)
from hloc.codegen.cpu.emitters.vector_loads import first_lanes, load_lanes, store_lanes
from hloc.codegen.llvm.routine import FINAL_WITH_SLOTS, Routines
from hloc.codegen.llvm.target import Target
from hloc.dtypes import F32, F64, PRED, S64, DType
from hloc.lazy_dataclass import dataclass

_CHUNK, _CHUNK_OF_FEW = 4, 2
"""Vectors of accumulators of output features, on machines with 32 or with 16 registers."""

CHUNK_ALONE = 8
"""The same of a single position: as many sums as the additions of a register need to overlap."""

_PLACES = 4
"""Positions along the last dimension that are computed together: they share loads of the kernel, if
their windows lie inside the input."""

UNROLLED = ((3, 1), (3, 2), (5, 1), (5, 2), (7, 1))
"""Windows and strides of depthwise convolutions whose positions share loads of the input, too.

Time over that of a loop over the window, AVX2: 0.73 for windows of 3x3 over 8x112x112x16, 0.82 with
stride 2 over 8x112x112x64; 0.73 for 5x5 over 8x28x28x120, 0.43 with stride 2 over 8x56x56x72.
"""

_LISTED_FEATURES = (1, 2, 4)
"""Input and output features per group of routines that programs are likely to call."""

_PARAMETERS = (
    *named_parameters("lhs rhs"),
    "ptr %out",
    *named_parameters(numbers="begin end"),
    "ptr noalias readonly %numbers",
    "ptr %finish",
    "ptr %context",
)


@dataclass(frozen=True, slots=True)
class GroupForm:
    """The parameters of a routine's text.

    Attributes:
        inputs, outputs: features per group.
        dtype: their type.
        line: window and stride along the last dimension, one of `UNROLLED`; None for any.
    """

    inputs: int
    outputs: int
    dtype: DType
    line: tuple[int, int] | None = None

    @property
    def name(self) -> str:
        """The name of the routine."""
        line = "_line_{}_by_{}".format(*self.line) if self.line else ""
        return f"grouped_{self.dtype.name}_{self.inputs}_to_{self.outputs}{line}"


@cache
def grouped_routine(form: GroupForm, target: Target) -> Routines:
    """Return the routine of one form."""
    return routine_unit(
        form.name, _PARAMETERS, lambda w: _Writer(w, form).write(), target, FINAL_WITH_SLOTS
    )


@dataclass(frozen=True, slots=True)
class _Reach:
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
class _Block:
    """Positions of the result that are computed together.

    Attributes:
        source, to: address of the first one in input and result.
        inputs, results: offsets of the others.
        reaches: the part of the window, by dimension.
        line: the part along the last dimension if it is unrolled; `reaches` lacks it then.
    """

    source: IndexValue
    to: IndexValue
    inputs: tuple[IndexValue, ...]
    results: tuple[IndexValue, ...]
    reaches: tuple[_Reach, ...]
    line: _Reach | None = None


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


class _Writer:
    """Writes one routine."""

    def __init__(self, w: RoutineWriter, form: GroupForm) -> None:
        self.w, self.fn, self.body, self.math, self.form = w, w.fn, w.body, w.math, form
        self.lanes = w.b.target.vector_bits // form.dtype.bits
        self.groups = self.lanes // form.outputs
        self.used = self.groups * form.outputs
        self.held = self.groups * form.inputs
        element = REPRESENTATIONS[form.dtype].memory
        self.kind = f"<{self.lanes} x {element}>"
        self.held_kind = f"<{self.held} x {element}>"
        is_whole = self.used == self.lanes
        self.part = "" if is_whole else first_lanes(w, self.used, self.lanes)
        self.has_masks = w.b.target.has("avx512f")
        self.features: Value
        self.limits: tuple[IndexValue, IndexValue] = (0, 0)

    def write(self) -> None:
        """Write the loops over the positions of the result."""
        w, body, math = self.w, self.body, self.math
        count = FEATURES + OUTER
        features, part, size, step, rest, lhs, out = (w.offset("%numbers", i) for i in range(count))
        self.features = features
        dims = [
            [w.offset("%numbers", count + d * SPATIAL + i) for i in range(SPATIAL)]
            for d in range(SPATIAL_DIMS)
        ]
        *outer, last = dims
        pieces = self._pieces(last)
        with ExitStack() as stack:
            n = stack.enter_context(body.loop(*self._part(size, step, rest)))
            source, to = math.mul(n, lhs), math.mul(n, out)
            reaches: list[_Reach] = []
            for d in outer:
                i = stack.enter_context(body.loop(*self._part(*d[:3])))
                reach, start = self._reach(d, i)
                reaches.append(reach)
                source = math.add(source, math.mul(start, d[3]))
                to = math.add(to, math.mul(i, d[4]))
            with body.loop(0, features, part) as begin:
                self.limits = begin, math.minimum(math.add(begin, part), features)
                with body.loop(0, pieces.count) as piece:
                    self._piece(pieces, piece, last, (source, to), reaches)
            with body.when(Value(PRED, self.fn.value("icmp ne ptr %finish, null"))):
                self._finish(pieces, last, to)

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
        first, stop = self._part(*d[:3])
        _, _, _, _, _, held, window, stride, pad, dilation, _ = d
        inside = math.maximum(first, self._divided(math.maximum(pad, 0), stride))
        reach = math.mul(math.sub(window, 1), dilation)
        room = math.maximum(math.sub(math.add(held, pad), reach), 0)
        begin = math.minimum(inside, stop)
        past = math.minimum(stop, self._divided(room, stride))
        blocks = math.div(math.maximum(math.sub(past, begin), 0), _PLACES)
        after = math.sub(math.sub(stop, begin), math.mul(blocks, _PLACES))
        before = math.sub(begin, first)
        count = math.add(math.add(before, blocks), after)
        return _Pieces(first, math.sub(stop, first), before, blocks, count)

    def _piece(
        self,
        pieces: _Pieces,
        number: IndexValue,
        d: Sequence[Value],
        places: tuple[IndexValue, IndexValue],
        reaches: Sequence[_Reach],
    ) -> None:
        """Write one position, or a block of them."""
        math = self.math
        behind = math.maximum(math.sub(number, pieces.before), 0)
        passed = math.minimum(behind, pieces.blocks)
        i = math.add(math.add(pieces.first, number), math.mul(passed, _PLACES - 1))
        is_behind = math.compare("GE", number, pieces.before)
        is_block = self.w.b.and_(is_behind, math.compare("LT", behind, pieces.blocks))
        is_alone = self.w.b.not_(is_block)
        with self.body.when(is_block):
            self._places(_PLACES, d, i, places, reaches)
        with self.body.when(is_alone):
            self._places(1, d, i, places, reaches)

    def _places(
        self,
        count: int,
        d: Sequence[Value],
        i: IndexValue,
        places: tuple[IndexValue, IndexValue],
        reaches: Sequence[_Reach],
    ) -> None:
        """Write `count` positions from index `i` of the last dimension."""
        math = self.math
        _, _, _, lhs, out, _, window, stride, pad, dilation, rhs = d
        if count == 1:
            reach, start = self._reach(d, i)
        else:
            reach = _Reach(0, window, math.mul(dilation, lhs), rhs)
            start = math.sub(math.mul(i, stride), pad)
        is_unrolled = count > 1 and self.form.line is not None
        self._features(
            _Block(
                math.add(places[0], math.mul(start, lhs)),
                math.add(places[1], math.mul(i, out)),
                tuple(math.mul(math.mul(stride, lhs), place) for place in range(count)),
                tuple(math.mul(out, place) for place in range(count)),
                tuple(reaches) if is_unrolled else (*reaches, reach),
                reach if is_unrolled else None,
            )
        )

    def _part(
        self, size: IndexValue, step: IndexValue, rest: IndexValue
    ) -> tuple[IndexValue, IndexValue]:
        """Return a thread's part of a dimension."""
        math = self.math
        end = math.add(math.mul(argument("%end"), step), rest)
        return math.mul(argument("%begin"), step), math.minimum(size, end)

    def _reach(self, d: Sequence[Value], i: IndexValue) -> tuple[_Reach, IndexValue]:
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
            low = self._divided(missing, dilation)
            high = math.minimum(self._divided(present, dilation), window)
            fn.line(f"store i64 {math.value(low).text}, ptr {slots[0]}")
            fn.line(f"store i64 {math.value(high).text}, ptr {slots[1]}")
        low, high = (Value(S64, fn.value(f"load i64, ptr {slot}")) for slot in slots)
        return _Reach(low, high, math.mul(dilation, lhs), rhs), start

    def _divided(self, x: IndexValue, y: Value) -> Value:
        """Return x / y, rounded up."""
        math = self.math
        above = math.value(math.sub(math.add(x, y), 1)).text
        return Value(S64, self.fn.index_arithmetic("div", above, y.text))

    def _features(self, block: _Block) -> None:
        """Run over the part of output features, in chunks of as many vectors as remain."""
        math = self.math
        begin, stop = self.limits
        for count in self._chunks(is_alone=len(block.inputs) == 1):
            size = count * self.used
            left = math.sub(stop, begin)
            end = math.add(begin, math.mul(math.div(left, size), size))
            with self.body.loop(begin, end, size) as first:
                self._chunk(count, first, self.part, "", block)
            begin = end
        with self.body.loop(begin, stop, self.used) as first:
            left = math.minimum(math.sub(stop, first), self.used)
            groups = math.div(left, self.form.outputs)
            mask = first_lanes(self.w, left, self.lanes)
            held = first_lanes(self.w, math.mul(groups, self.form.inputs), self.held)
            self._chunk(1, first, mask, held, block)

    def _chunks(self, *, is_alone: bool) -> list[int]:
        """Return the numbers of whole vectors that are computed together, the largest first."""
        target = self.w.b.target
        has_many = target.vector_bits == 512 or target.is_aarch64
        found = [CHUNK_ALONE] if is_alone else []
        found.append(_CHUNK if has_many else _CHUNK_OF_FEW)
        return found if self.has_masks else [*found, 1]

    def _chunk(self, count: int, first: IndexValue, mask: str, held: str, block: _Block) -> None:
        """Compute `count` vectors of output features, and write them.

        Args:
            count: number of vectors.
            first: the first feature.
            mask: the valid lanes of outputs, "" for all.
            held: the valid lanes of inputs.
            block: the positions.
        """
        fn, math, body = self.fn, self.math, self.body
        channel = math.mul(math.div(first, self.form.outputs), self.form.inputs)
        slots = [[fn.allocate(self.kind) for _ in range(count)] for _ in block.inputs]
        for slot in chain.from_iterable(slots):
            fn.line(f"store {self.kind} zeroinitializer, ptr {slot}")
        with ExitStack() as stack:
            left, right = math.add(block.source, channel), first
            for reach in block.reaches:
                w = stack.enter_context(body.loop(reach.low, reach.high))
                left = math.add(left, math.mul(w, reach.step))
                right = math.add(right, math.mul(w, reach.rhs))
            if block.line:
                self._add_line(slots, (left, right), mask, block.line)
            else:
                self._add(slots, (left, right), (held, mask), block)
        for place, row in zip(block.results, slots, strict=True):
            to = self._moved_to("%out", math.add(math.add(block.to, first), place))
            for number, slot in enumerate(row):
                at = self._address(to, number * self.used)
                total = fn.value(f"load {self.kind}, ptr {slot}")
                store_lanes(self.w, at, self.form.dtype, self.lanes, mask, total)

    def _add(
        self,
        slots: Sequence[Sequence[str]],
        places: tuple[IndexValue, IndexValue],
        masks: tuple[str, str],
        block: _Block,
    ) -> None:
        """Add the products of one window element to the accumulators, by position and vector."""
        fn, math, dtype = self.fn, self.math, self.form.dtype
        source = self._moved_to("%lhs", places[0])
        kernel: list[str] = []
        for number in range(self.form.inputs):
            features = math.add(places[1], math.mul(self.features, number))
            kernel.append(self._moved_to("%rhs", features))
        for number in range(len(slots[0])):
            factors = [
                load_lanes(
                    self.w, self._address(row, number * self.used), dtype, self.lanes, masks[1]
                )
                for row in kernel
            ]
            for distance, row in zip(block.inputs, slots, strict=True):
                at = self._address(self._address(source, distance), number * self.held)
                inputs = load_lanes(self.w, at, dtype, self.held, masks[0])
                total = fn.value(f"load {self.kind}, ptr {row[number]}")
                for place, y in enumerate(factors):
                    x = self._moved(inputs, place)
                    product = fn.value(f"fmul contract {self.kind} {x}, {y}")
                    total = fn.value(f"fadd contract {self.kind} {total}, {product}")
                fn.line(f"store {self.kind} {total}, ptr {row[number]}")

    def _add_line(
        self,
        slots: Sequence[Sequence[str]],
        places: tuple[IndexValue, IndexValue],
        mask: str,
        line: _Reach,
    ) -> None:
        """Add the products of a line of the window, each input to all positions that read it.

        It is loaded once, as is each element of the kernel.
        """
        fn, dtype, lanes = self.fn, self.form.dtype, self.lanes
        assert self.form.line is not None
        window, stride = self.form.line
        left, right = (
            self._moved_to(side, at) for side, at in zip(("%lhs", "%rhs"), places, strict=True)
        )
        for number in range(len(slots[0])):
            at, factors = self._address(right, number * lanes), []
            for _ in range(window):
                factors.append(load_lanes(self.w, at, dtype, lanes, mask))
                at = self._address(at, line.rhs)
            rows = [row[number] for row in slots]
            totals = [fn.value(f"load {self.kind}, ptr {slot}") for slot in rows]
            at = self._address(left, number * lanes)
            for position in range((len(rows) - 1) * stride + window):
                x = load_lanes(self.w, at, dtype, lanes, mask)
                for place, total in enumerate(totals):
                    tap = position - place * stride
                    if 0 <= tap < window:
                        product = fn.value(f"fmul contract {self.kind} {x}, {factors[tap]}")
                        sum_ = fn.value(f"fadd contract {self.kind} {total}, {product}")
                        totals[place] = sum_
                at = self._address(at, line.step)
            for slot, total in zip(rows, totals, strict=True):
                fn.line(f"store {self.kind} {total}, ptr {slot}")

    def _moved(self, inputs: str, number: int) -> str:
        """Broadcast input `number` of each group to the lanes of the group."""
        form = self.form
        places = [lane // form.outputs * form.inputs + number for lane in range(self.lanes)]
        if places == list(range(self.held)):
            return inputs
        mask = ", ".join(f"i32 {place if place < self.held else 0}" for place in places)
        kind = self.held_kind
        text = f"shufflevector {kind} {inputs}, {kind} poison, <{self.lanes} x i32> <{mask}>"
        return self.fn.value(text)

    def _moved_to(self, pointer: str, place: IndexValue) -> str:
        moved = self.w.b.moved(pointer_value(pointer), self.form.dtype, self.math.value(place))
        return moved.text

    def _address(self, pointer: str, place: IndexValue) -> str:
        return self.w.b.address(pointer_value(pointer), self.form.dtype, place)


def listed_routines(target: Target) -> Iterator[Routines]:
    """Yield the routines that programs are likely to call."""
    for inputs, outputs in product(_LISTED_FEATURES, repeat=2):
        yield grouped_routine(GroupForm(inputs, outputs, F32), target)
    yield grouped_routine(GroupForm(1, 1, F64), target)
    for line in UNROLLED:
        yield grouped_routine(GroupForm(1, 1, F32, line), target)
