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

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import REPRESENTATIONS
from hloc.codegen.cpu.emitters.convolution.position_loops import (
    PARAMETERS,
    Block,
    PositionLoops,
    Reach,
)
from hloc.codegen.cpu.emitters.routine_writer import RoutineWriter, routine_unit
from hloc.codegen.cpu.emitters.vector_loads import first_lanes, load_lanes, store_lanes
from hloc.codegen.llvm.routine import FINAL_WITH_SLOTS, Routines
from hloc.codegen.llvm.target import Target
from hloc.dtypes import F32, F64, DType
from hloc.lazy_dataclass import dataclass
from hloc.memory.heap import CACHE_LINE_BYTES

_CHUNK, _CHUNK_OF_FEW = 4, 2
"""Vectors of accumulators of output features, on machines with 32 or with 16 registers."""

CHUNK_ALONE = 8
"""The same of a single position: as many sums as the additions of a register need to overlap."""

UNROLLED = ((3, 1), (3, 2), (5, 1), (5, 2), (7, 1))
"""Windows and strides of depthwise convolutions whose positions share loads of the input, too.

Time over that of a loop over the window, AVX2: 0.73 for windows of 3x3 over 8x112x112x16, 0.82 with
stride 2 over 8x112x112x64; 0.73 for 5x5 over 8x28x28x120, 0.43 with stride 2 over 8x56x56x72.
"""

_LISTED_FEATURES = (1, 2, 4)
"""Input and output features per group of routines that programs are likely to call."""


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
        form.name, PARAMETERS, lambda w: _Writer(w, form).write(), target, FINAL_WITH_SLOTS
    )


class _Writer(PositionLoops):
    """Writes one routine."""

    def __init__(self, w: RoutineWriter, form: GroupForm) -> None:
        super().__init__(w, form.dtype)
        self.form = form
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

    def write_block(self, block: Block) -> None:
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

    def _chunk(self, count: int, first: IndexValue, mask: str, held: str, block: Block) -> None:
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
        is_unrolled = len(block.inputs) > 1 and self.form.line is not None
        with ExitStack() as stack:
            left, right = math.add(block.source, channel), first
            for reach in block.reaches if is_unrolled else (*block.reaches, block.line):
                w = stack.enter_context(body.loop(reach.low, reach.high))
                left = math.add(left, math.mul(w, reach.step))
                right = math.add(right, math.mul(w, reach.rhs))
            if is_unrolled:
                self._add_line(slots, (left, right), mask, block.line)
            else:
                self._add(slots, (left, right), (held, mask), block)
        for place, row in zip(block.results, slots, strict=True):
            to = self.moved_to("%out", math.add(math.add(block.to, first), place))
            for number, slot in enumerate(row):
                at = self.address(to, number * self.used)
                total = fn.value(f"load {self.kind}, ptr {slot}")
                store_lanes(self.w, at, self.form.dtype, self.lanes, mask, total)

    def _add(
        self,
        slots: Sequence[Sequence[str]],
        places: tuple[IndexValue, IndexValue],
        masks: tuple[str, str],
        block: Block,
    ) -> None:
        """Add the products of one window element to the accumulators, by position and vector."""
        fn, math, dtype = self.fn, self.math, self.form.dtype
        source = self.moved_to("%lhs", places[0])
        kernel: list[str] = []
        for number in range(self.form.inputs):
            features = math.add(places[1], math.mul(self.features, number))
            kernel.append(self.moved_to("%rhs", features))
        for number in range(len(slots[0])):
            factors = [
                load_lanes(
                    self.w, self.address(row, number * self.used), dtype, self.lanes, masks[1]
                )
                for row in kernel
            ]
            for distance, row in zip(block.inputs, slots, strict=True):
                at = self.address(self.address(source, distance), number * self.held)
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
        line: Reach,
    ) -> None:
        """Add the products of a line of the window, each input to all positions that read it.

        It is loaded once, as is each element of the kernel.
        """
        fn, dtype, lanes = self.fn, self.form.dtype, self.lanes
        assert self.form.line is not None
        window, stride = self.form.line
        left, right = (
            self.moved_to(side, at) for side, at in zip(("%lhs", "%rhs"), places, strict=True)
        )
        for number in range(len(slots[0])):
            at, factors = self.address(right, number * lanes), []
            for _ in range(window):
                factors.append(load_lanes(self.w, at, dtype, lanes, mask))
                at = self.address(at, line.rhs)
            rows = [row[number] for row in slots]
            totals = [fn.value(f"load {self.kind}, ptr {slot}") for slot in rows]
            at = self.address(left, number * lanes)
            for position in range((len(rows) - 1) * stride + window):
                x = load_lanes(self.w, at, dtype, lanes, mask)
                if stride > 1 and position >= window - stride:
                    self._prefetch(at, number, self.math.mul(line.step, len(rows) * stride))
                for place, total in enumerate(totals):
                    tap = position - place * stride
                    if 0 <= tap < window:
                        product = fn.value(f"fmul contract {self.kind} {x}, {factors[tap]}")
                        sum_ = fn.value(f"fadd contract {self.kind} {total}, {product}")
                        totals[place] = sum_
                at = self.address(at, line.step)
            for slot, total in zip(rows, totals, strict=True):
                fn.line(f"store {self.kind} {total}, ptr {slot}")

    def _prefetch(self, at: str, number: int, distance: IndexValue) -> None:
        """Prefetch what the next positions read, with the first vector of each cache line.

        Without a stride most of it is in the cache, since the line before read it. Time relative to
        none, AVX2: 0.77 for 3x3 with stride 2 over 8x112x112x64.
        """
        if number * self.lanes * self.form.dtype.storage_bytes % CACHE_LINE_BYTES == 0:
            self.w.b.prefetch_at(self.address(at, distance))

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


def listed_routines(target: Target) -> Iterator[Routines]:
    """Yield the routines that programs are likely to call."""
    for inputs, outputs in product(_LISTED_FEATURES, repeat=2):
        yield grouped_routine(GroupForm(inputs, outputs, F32), target)
    yield grouped_routine(GroupForm(1, 1, F64), target)
    for line in UNROLLED:
        yield grouped_routine(GroupForm(1, 1, F32, line), target)
