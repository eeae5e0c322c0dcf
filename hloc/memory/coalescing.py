"""Coalescing: values that share one buffer (loop state, branch results, copies, updates).

As in a register allocator (Chaitin, 1982), every value starts in a class of its own, and classes
are merged. Required merges are checked; an optional merge is made only if the live ranges of the
two classes do not interfere.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from dataclasses import field

from hloc.analysis.dataflow import Dataflow, nonempty_leaves
from hloc.analysis.in_place import may_overwrite, overwritten_operands
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.memory.live_range import Interval
from hloc.memory.values import Timeline, Value, Values, operand_leaves


@dataclass(slots=True)
class BufferClass:
    """Values that share one buffer, with their intervals in order of time."""

    members: list[Value]
    intervals: list[Interval]
    fixed: bool


@dataclass(slots=True)
class Coalescer:
    """Merges classes; `class_of` is by `Value.number`."""

    timeline: Timeline
    values: Values
    class_of: list[BufferClass] = field(default_factory=list)
    _allowed: dict[tuple[Value, Value], bool] = field(default_factory=dict)

    def start(self, ranges: Iterable[tuple[Interval, ...]]) -> None:
        """Start with one class per value."""
        for value, intervals in zip(self.values.all, ranges, strict=True):
            self.class_of.append(BufferClass([value], list(intervals), value.fixed))

    def must_share(self, a: Value, b: Value) -> None:
        """Merge two classes; `copy-insertion` guarantees that they do not interfere."""
        merged = self.may_share(a, b)
        assert merged, f"{a} and {b} must share a buffer, but both are needed at one time"

    def may_share(self, a: Value, b: Value) -> bool:
        """Merge the classes of `a` and `b` if they do not interfere; True if they are one."""
        first, second = self.class_of[a.number], self.class_of[b.number]
        if first is second:
            return True
        if first.fixed or second.fixed or a.size_bytes != b.size_bytes:
            return False
        if len(first.intervals) < len(second.intervals):
            first, second = second, first
        if any(self._interferes(interval, first) for interval in second.intervals):
            return False
        first.members += second.members
        for interval in second.intervals:
            insort(first.intervals, interval, key=_first)
        for value in second.members:
            self.class_of[value.number] = first
        return True

    def _interferes(self, interval: Interval, other: BufferClass) -> bool:
        """True if `interval` overlaps one of `other`, unless one value overwrites the other."""
        at = bisect_left(other.intervals, interval.first, key=_first)
        # Intervals of a class meet in single events only, so one before `at` is enough.
        for i in range(max(0, at - 1), len(other.intervals)):
            found = other.intervals[i]
            if found.first > interval.last:
                return False
            if found.last >= interval.first and not self._hand_over(found, interval):
                return True
        return False

    def _hand_over(self, a: Interval, b: Interval) -> bool:
        """True if the two meet in one event, at which one is read last and the other written."""
        return any(
            earlier.last == later.first
            and (earlier.first, earlier.last) != (later.first, later.last)
            and self._may_overwrite(earlier.value, later)
            for earlier, later in ((a, b), (b, a))
        )

    def _may_overwrite(self, operand: Value, later: Interval) -> bool:
        """True if the instruction that defines `later` may do so in the buffer of `operand`."""
        result = later.value
        if result.is_phi or self.timeline.start[result.inst] != later.first:
            return False
        key = (operand, result)
        known = self._allowed.get(key)
        if known is None:
            known = self._allowed[key] = self._find_may_overwrite(operand, result)
        return known

    def _find_may_overwrite(self, operand: Value, result: Value) -> bool:
        inst = result.inst
        numbers = [
            number
            for number, index in operand_leaves(inst)
            if self.values.at(inst.operands[number], index) is operand
        ]
        # A kernel can overwrite one operand only, so there must not be a second one.
        return len(numbers) == 1 and may_overwrite(inst, numbers[0], result.index)


def _first(interval: Interval) -> int:
    return interval.first


def merge_required(coalescer: Coalescer) -> None:
    """Make the required merges: the phis of loops and conditionals with their values."""
    for inst in coalescer.timeline.order:
        for a, b in _phi_operands(inst, coalescer.values):
            coalescer.must_share(a, b)


def merge_optional(coalescer: Coalescer) -> None:
    """Make the optional merges, for results in place: deepest loops and largest arrays first."""
    dataflow = coalescer.values.dataflow
    candidates = list(_candidates(coalescer))
    depths = {c.result: _loop_depth(c.result, dataflow) for c in candidates}
    candidates.sort(key=lambda c: (not c.saves_copy, -depths[c.result], -c.result.size_bytes))
    for candidate in candidates:
        coalescer.may_share(candidate.operand, candidate.result)


def _phi_operands(inst: Instruction, values: Values) -> Iterator[tuple[Value, Value]]:
    """Yield each phi that `inst` defines with a value that it may take; they share a buffer."""
    opcode = inst.opcode.name
    if opcode == "while":
        condition, body = inst.called
        invariant = values.dataflow.invariant(inst)
        for index, _ in nonempty_leaves(inst.shape):
            if index not in invariant:
                state = values.at(inst, index)
                yield state, values.at(inst.operands[0], index)
                yield state, values.at(condition.parameters[0], index)
                yield state, values.at(body.parameters[0], index)
                yield state, values.at(body.root, index)
    elif opcode == "conditional":
        for branch in inst.called:
            for index, _ in nonempty_leaves(inst.shape):
                yield values.at(inst, index), values.at(branch.root, index)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """`result` may reuse the buffer of `operand`; `saves_copy` if that elides a copy."""

    operand: Value
    result: Value
    saves_copy: bool


def _candidates(coalescer: Coalescer) -> Iterator[_Candidate]:
    values = coalescer.values
    for result in values.all:
        inst = result.inst
        if result.is_phi or result.fixed:
            continue
        saving = overwritten_operands(inst)
        for number, index in operand_leaves(inst):
            if may_overwrite(inst, number, result.index):
                operand = values.at(inst.operands[number], index)
                yield _Candidate(operand, result, number in saving)


def _loop_depth(value: Value, dataflow: Dataflow) -> int:
    """Return the loop depth of `value`."""
    depth = 0
    caller = dataflow.caller(value.inst.computation)
    while caller is not None:
        depth += caller.is_a("while")
        caller = dataflow.caller(caller.computation)
    return depth
