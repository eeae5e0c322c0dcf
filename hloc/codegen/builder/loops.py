"""Structured control flow over the writer, and scopes of values for reuse.

A value computed inside a loop or branch is valid in that region only, so `values` loses it at the
end of the region.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from hloc.codegen.builder.scalar_builder import LlvmBuilder
from hloc.codegen.builder.values import REPRESENTATIONS, VARYING, NeedsScalars, Value
from hloc.codegen.llvm.writer import FunctionWriter
from hloc.dtypes import PRED, S64
from hloc.errors import UnsupportedError

IndexValue = int | Value
"""A position along one dimension: known at compile time, or an s64 in a register."""

MOST_TRIPS = 12
"""Trips of a short loop."""

_MOST_BODY_LINES = 64
"""Most lines in the body of a short loop: larger bodies are better vectorised than unrolled."""

_MOST_UNROLLED_LINES = 2400
"""Most lines of a short loop after unrolling, inner loops included."""

_SHORT_LOOP = " ; short loop"
"""The comment at the end of a short loop, which `unrolled_text` replaces by loop metadata."""

MAX_LINES = 60_000
"""Most lines of one kernel; larger ones are refused, as they would take too long to compile."""


class Body:
    """The function that is being emitted: builder, loops, branches, scopes.

    Attributes:
        values: the values available here, by the key under which they were computed.
        keeps_loops: no loop is marked as short.
        unrolls: LLVM may unroll loops that are not.
    """

    def __init__(self, fn: FunctionWriter, b: LlvmBuilder) -> None:
        self.fn = fn
        self.b = b
        self.values: dict[Hashable, Any] = {}
        self.keeps_loops = False
        self.unrolls = True
        self._kept: list[Hashable] = []
        self._added_lines = 0

    @contextmanager
    def scope(self) -> Iterator[None]:
        """A region whose values are forgotten at its end."""
        if self.fn.size > MAX_LINES:
            raise UnsupportedError(
                f"the fused computation needs more than {MAX_LINES} lines of code in one kernel"
            )
        outer, own = self._kept, list[Hashable]()
        self._kept = own
        try:
            yield
        finally:
            for key in own:
                del self.values[key]
            self._kept = outer

    def keep(self, key: Hashable, value: Any) -> None:
        """Make `value` available under a new key until the region ends."""
        assert key not in self.values, key
        self.values[key] = value
        self._kept.append(key)

    # ---- loops

    @contextmanager
    def loop(
        self, start: IndexValue, stop: IndexValue, step: IndexValue = 1, *, vectors: bool = False
    ) -> Iterator[IndexValue]:
        """Run the region for start, start + step ... below `stop`; yields the counter.

        A loop that is known to have no trips leaves no code. `vectors` makes LLVM vectorise the
        loop at levels that do not vectorise by themselves.
        """
        runs = isinstance(start, int) and isinstance(stop, int) and start < stop
        if isinstance(start, int) and isinstance(stop, int) and not runs:
            with self.fn.discarded(), self.scope():
                yield Value(S64, self.fn.reserve_value())
            return
        if runs and isinstance(step, int) and stop <= start + step:  # type: ignore[operator]
            with self.scope():
                yield start
            return
        fn = self.fn
        before, head, after = fn.block, fn.new_block(), fn.new_block()
        first, last = _text(start), _text(stop)
        if runs:
            fn.jump(head)
        else:
            fn.branch(fn.value(f"icmp slt i64 {first}, {last}"), head, after)
        fn.start_block(head)
        counter, following = fn.reserve_value(), fn.reserve_value()
        slot = fn.reserve_line()
        size, added = fn.size, self._added_lines
        with self.scope():
            yield Value(S64, counter)
        fn.fill_line(
            slot, f"{counter} = phi i64 [ {first}, %{before} ], [ {following}, %{fn.block} ]"
        )
        fn.line(f"{following} = add nuw nsw i64 {counter}, {_text(step)}")
        again = fn.value(f"icmp slt i64 {following}, {last}")
        mark = ""
        if vectors and self.b.target.has_vectors:
            mark = self._mark(VECTOR_LOOP)
        elif runs and isinstance(step, int):
            trips = -((start - stop) // step)  # type: ignore[operator]
            mark = self._short_mark(trips, fn.size - size, self._added_lines - added)
        if not mark and not self.unrolls:
            mark = self._mark(ROLLED_LOOP)
        fn.branch(again, head, after, mark)
        fn.start_block(after)

    def _short_mark(self, trips: int, lines: int, added: int) -> str:
        """Return the comment for a loop of `lines`, with `added` ones from unrolled inner loops."""
        whole = trips * (lines + added)
        if trips > MOST_TRIPS or lines > _MOST_BODY_LINES or whole > _MOST_UNROLLED_LINES:
            return ""
        if self.keeps_loops:
            return ""
        self._added_lines += whole - lines - added
        return _SHORT_LOOP

    def _mark(self, metadata: Sequence[str]) -> str:
        """Return the mark of a loop with `metadata`, which is declared."""
        for declaration in metadata:
            self.fn.declare(declaration)
        return f", !llvm.loop {metadata[0].partition(' ')[0]}"

    @contextmanager
    def nest(
        self,
        dims: Sequence[int],
        order: Sequence[int],
        first_range: tuple[IndexValue, IndexValue] | None = None,
    ) -> Iterator[list[IndexValue]]:
        """Run the region for every index below `dims`; `order` lists dimensions outermost first.

        Yields the index, by dimension. Dimensions not in `order` stay 0. `first_range` replaces
        the range of the first one.
        """
        index: list[IndexValue] = [0] * len(dims)
        with ExitStack() as stack:
            for position, dim in enumerate(order):
                start, stop = first_range if first_range and position == 0 else (0, dims[dim])
                index[dim] = stack.enter_context(self.loop(start, stop))
            yield index

    # ---- branches

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """Run the region if `condition` holds."""
        if condition.text == "true":
            with self.scope():
                yield
            return
        if isinstance(condition, VARYING):
            raise NeedsScalars("a branch that only some lanes take")
        fn = self.fn
        then, after = fn.new_block(), fn.new_block()
        fn.branch(condition.text, then, after)
        fn.start_block(then)
        with self.scope():
            yield
        fn.jump(after)
        fn.start_block(after)

    @contextmanager
    def repeat_while(self) -> Iterator[WhileRegion]:
        """A loop whose exit condition is computed inside: call `go_on_if(condition)`."""
        fn = self.fn
        head, after = fn.new_block(), fn.new_block()
        fn.jump(head)
        fn.start_block(head)
        with self.scope():
            yield WhileRegion(fn, after)
        fn.jump(head)
        fn.start_block(after)

    def merge(self, incoming: Sequence[tuple[Value, str]]) -> Value:
        """Return a phi of pairs of value and label of the predecessor block."""
        if any(isinstance(value, VARYING) for value, _ in incoming):
            raise NeedsScalars("lanes from several branches")
        dtype = incoming[0][0].dtype
        kind = REPRESENTATIONS[dtype].register
        text = ", ".join(f"[ {value.text}, %{label} ]" for value, label in incoming)
        real = self.fn.value(f"phi {kind} {text}")
        if not dtype.is_complex:
            return Value(dtype, real)
        text = ", ".join(f"[ {value.imag}, %{label} ]" for value, label in incoming)
        return Value(dtype, real, self.fn.value(f"phi {kind} {text}"))

    def all_of(self, conditions: Sequence[Value]) -> Value:
        """Return whether all conditions hold; true if there are none."""
        result: Value | None = None
        for condition in conditions:
            if condition.text == "true":
                continue
            if condition.text == "false":
                return condition
            result = condition if result is None else self.b.and_(result, condition)
        return result or Value(PRED, "true")


class WhileRegion:
    """The head of a `repeat_while` loop."""

    def __init__(self, fn: FunctionWriter, after: str) -> None:
        self._fn = fn
        self._after = after

    def go_on_if(self, condition: Value) -> None:
        """Leave the loop unless `condition` holds."""
        inside = self._fn.new_block()
        self._fn.branch(condition.text, inside, self._after)
        self._fn.start_block(inside)


def has_only_short_loops(text: str) -> bool:
    """True if LLVM text has no loop but short ones; each loop has one counter."""
    return text.count(" = phi i64 [") == text.count(_SHORT_LOOP)


VECTOR_LOOP = ("!0 = distinct !{!0, !1}", '!1 = !{!"llvm.loop.vectorize.enable", i1 true}')
ROLLED_LOOP = (
    "!7 = distinct !{!7, !8, !9}",
    '!8 = !{!"llvm.loop.interleave.count", i32 1}',
    '!9 = !{!"llvm.loop.unroll.disable"}',
)
"""The metadata of loops that LLVM vectorises, and of those that it does not unroll."""

UNROLL_REQUEST = ("!3 = distinct !{!3, !4}", '!4 = !{!"llvm.loop.unroll.full"}')
"""The metadata that `unrolled_text` refers to; a unit has it once."""


def unrolled_text(text: str) -> str:
    """Return LLVM text whose short loops LLVM unrolls, which keeps accumulators in registers.

    Unless that is `text` itself, it needs `UNROLL_REQUEST`.
    """
    return text.replace(f"{_SHORT_LOOP}\n", ", !llvm.loop !3\n")


def _text(index: IndexValue) -> str:
    return str(index) if isinstance(index, int) else index.text
