"""Convolutions with one feature as routines: vectors of neighbouring results along rows.

    filter_rows(lhs, rhs, out, begin, end, numbers, finish, context)

Rows along the last dimension are contiguous in the input and in the result, and windows move along
them by single elements. `numbers` are `grouped_numbers`. A mask excludes the results whose window
element lies outside the row; away from its ends, the code without masks runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import cache
from itertools import pairwise, product

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import Value
from hloc.codegen.cpu.emitters.convolution.position_loops import PARAMETERS, LineLoops, Reach
from hloc.codegen.cpu.emitters.routine_writer import RoutineWriter, routine_unit
from hloc.codegen.cpu.emitters.vector_loads import (
    first_lanes,
    load_lanes,
    store_lanes,
    vector_type,
)
from hloc.codegen.llvm.routine import FINAL_WITH_SLOTS, Routines
from hloc.codegen.llvm.target import Target
from hloc.dtypes import F32, F64, DType
from hloc.lazy_dataclass import dataclass

_VECTORS = 4
"""Vectors of sums at a time: additions to one wait for each other."""

_REST = 2
"""Most vectors of the rest of a row, and of its beginning."""

UNROLLED = (3, 5, 7)
"""Widths of windows whose loops are unrolled."""


@dataclass(frozen=True, slots=True)
class FilterRows:
    """The parameters of a routine's text.

    Attributes:
        dtype: the element type of all three arrays.
        width: elements of the window along a row, one of `UNROLLED`; 0 for any number.
    """

    dtype: DType
    width: int

    @property
    def name(self) -> str:
        """The name of the routine."""
        return f"filter_rows_{self.dtype.name}{f'_{self.width}' if self.width else ''}"


@cache
def filter_rows_routine(form: FilterRows, target: Target) -> Routines:
    """Return the routine of one form, for a machine with loads of some lanes."""
    return routine_unit(
        form.name, PARAMETERS, lambda w: _Writer(w, form).write(), target, FINAL_WITH_SLOTS
    )


class _Writer(LineLoops):
    """Writes one routine."""

    def __init__(self, w: RoutineWriter, form: FilterRows) -> None:
        super().__init__(w, form.dtype)
        self.width = form.width
        self.lanes = w.b.target.vector_bits // form.dtype.bits
        self.kind = vector_type(form.dtype, self.lanes)
        self.bounds: tuple[IndexValue, ...] = ()

    def prepare(self, d: Sequence[Value]) -> None:
        """Divide rows: short blocks at the beginning, blocks inside, one after them, and a rest.

        Short rows have only the rest.
        """
        math, size = self.math, _VECTORS * self.lanes
        first, stop = self.thread_range(*d[:3])
        _, _, _, _, _, held, window, _, pad, dilation, _ = d
        past = math.sub(math.add(held, pad), math.mul(math.sub(window, 1), dilation))
        is_long = math.minimum(math.div(self._vectors_in(first, stop), _REST + 1), 1)
        short = _REST * self.lanes
        outside = math.add(math.maximum(math.sub(pad, first), 0), short - 1)
        before = math.mul(math.mul(math.div(outside, short), short), is_long)
        begin = math.minimum(math.add(first, before), stop)
        room = math.maximum(math.sub(math.minimum(stop, past), begin), 0)
        inside = math.add(begin, math.mul(math.div(room, size), size))
        is_more = math.minimum(math.div(self._vectors_in(inside, stop), _REST + 1), 1)
        end = math.minimum(math.add(inside, math.mul(is_more, size)), stop)
        self.bounds = (first, begin, inside, end, stop)

    def _vectors_in(self, first: IndexValue, stop: IndexValue) -> IndexValue:
        """Return how many vectors a part of a row has."""
        math = self.math
        return math.div(math.add(math.sub(stop, first), self.lanes - 1), self.lanes)

    def line(
        self,
        d: Sequence[Value],
        part: IndexValue,
        places: tuple[IndexValue, IndexValue],
        reaches: Sequence[Reach],
    ) -> None:
        """Run over the vectors of a row."""
        counts = (_REST, _VECTORS, _VECTORS, _REST)
        for number, (span, count) in enumerate(zip(pairwise(self.bounds), counts, strict=True)):
            self._vectors(span, count, number != 1, d, places, reaches)

    def _vectors(
        self,
        span: tuple[IndexValue, IndexValue],
        count: int,
        masked: bool,
        d: Sequence[Value],
        places: tuple[IndexValue, IndexValue],
        reaches: Sequence[Reach],
    ) -> None:
        """Compute the results of `span`, `count` vectors at a time."""
        fn, math, lanes, body = self.fn, self.math, self.lanes, self.body
        _, _, _, _, _, held, window, _, pad, dilation, rhs = d
        slots = [fn.allocate(self.kind) for _ in range(count)]
        with body.loop(*span, count * lanes) as x:
            for slot in slots:
                fn.line(f"store {self.kind} zeroinitializer, ptr {slot}")
            with ExitStack() as stack:
                row: IndexValue = math.add(places[0], math.sub(x, pad))
                right: IndexValue = 0
                for reach in reaches:
                    w = stack.enter_context(body.loop(reach.low, reach.high))
                    row = math.add(row, math.mul(w, reach.step))
                    right = math.add(right, math.mul(w, reach.rhs))
                taps: Sequence[IndexValue] = range(self.width)
                if not self.width:
                    taps = [stack.enter_context(body.loop(0, window))]
                for tap in taps:
                    along = math.mul(tap, dilation)
                    kernel = math.add(right, math.mul(tap, rhs))
                    inside = (math.add(math.sub(x, pad), along), held) if masked else None
                    self._add(slots, (math.add(row, along), kernel), inside)
            to = self.moved_to("%out", math.add(places[1], x))
            for number, slot in enumerate(slots):
                total = fn.value(f"load {self.kind}, ptr {slot}")
                at, valid = self.address(to, number * lanes), ""
                if masked:
                    left = math.sub(math.sub(span[1], x), number * lanes)
                    valid = first_lanes(self.w, left, lanes)
                store_lanes(self.w, at, self.dtype, lanes, valid, total)

    def _add(
        self,
        slots: Sequence[str],
        places: tuple[IndexValue, IndexValue],
        inside: tuple[IndexValue, Value] | None,
    ) -> None:
        """Add the products of one element of the window to the sums.

        `inside` has the place in the row of the first element, and the elements of the row.
        """
        fn = self.fn
        source, kernel = (self.moved_to(*at) for at in zip(("%lhs", "%rhs"), places, strict=True))
        element = self.kind[self.kind.rindex(" ") + 1 : -1]
        factor = self.w.b.load(pointer_value(kernel), self.dtype, 0)
        factors = self._splat(self.kind, f"{element} {factor.text}")
        for number, slot in enumerate(slots):
            mask = ""
            if inside:
                mask = self._inside(self.math.add(inside[0], number * self.lanes), inside[1])
            at = self.address(source, number * self.lanes)
            elements = load_lanes(self.w, at, self.dtype, self.lanes, mask)
            total = fn.value(f"load {self.kind}, ptr {slot}")
            product = fn.value(f"fmul contract {self.kind} {elements}, {factors}")
            added = fn.value(f"fadd contract {self.kind} {total}, {product}")
            if mask:  # the factor may be infinite
                sums = f"{self.kind} {added}, {self.kind} {total}"
                added = fn.value(f"select <{self.lanes} x i1> {mask}, {sums}")
            fn.line(f"store {self.kind} {added}, ptr {slot}")

    def _splat(self, kind: str, one: str) -> str:
        """Return a value, given with its type, in all lanes."""
        found = self.fn.value(f"insertelement {kind} poison, {one}, i64 0")
        order = f"<{self.lanes} x i32> zeroinitializer"
        return self.fn.value(f"shufflevector {kind} {found}, {kind} poison, {order}")

    def _inside(self, place: IndexValue, held: Value) -> str:
        """Return the mask of the lanes inside a row of `held` elements, from `place` on."""
        fn, kind = self.fn, f"<{self.lanes} x i32>"
        first, limit = (
            self._splat(kind, "i32 " + fn.value(f"trunc i64 {self.math.value(x).text} to i32"))
            for x in (place, held)
        )
        numbers = ", ".join(f"i32 {lane}" for lane in range(self.lanes))
        places = fn.value(f"add {kind} {first}, <{numbers}>")
        return fn.value(f"icmp ult {kind} {places}, {limit}")


def listed_routines(target: Target) -> Iterator[Routines]:
    """Yield all such routines."""
    if target.has("avx2"):
        for dtype, width in product((F32, F64), (0, *UNROLLED)):
            yield filter_rows_routine(FilterRows(dtype, width), target)
