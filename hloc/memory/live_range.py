"""Live ranges: intervals on the timeline of a scheduled module.

Both ends of an interval belong to it. A value that a loop reads from outside lives until the loop
ends; one that only some branches of a conditional read is dead in the others.
"""

from __future__ import annotations

from dataclasses import field

from hloc.ir.computation import Computation
from hloc.lazy_dataclass import dataclass
from hloc.memory.values import Timeline, Value, Values, read_at_end, read_leaves


@dataclass(frozen=True, slots=True)
class Interval:
    """The events `first..last` of the timeline in which `value` is live."""

    first: int
    last: int
    value: Value


@dataclass(slots=True)
class _Uses:
    """The last use in each region, and the branches of its conditionals that use the value."""

    last: dict[Computation, int] = field(default_factory=dict)
    branches: dict[Computation, dict[Computation, None]] = field(default_factory=dict)


def live_ranges(timeline: Timeline, values: Values) -> tuple[tuple[Interval, ...], ...]:
    """Return the intervals of each value, by `Value.number`, in order of time."""
    collector = _Collector(timeline, values, [_Uses() for _ in values.all])
    for inst in timeline.order:
        for number, index in read_leaves(inst, values.dataflow):
            value = values.at(inst.operands[number], index)
            collector.add(value, inst.computation, timeline.start[inst])
    for computation, time in timeline.finish.items():
        for index in read_at_end(computation, values.dataflow):
            collector.add(values.at(computation.root, index), computation, time)
    for value in values.all:
        computation = value.inst.computation
        if value.inst.opcode.name == "parameter" and is_condition(computation, values):
            # The state goes on to the body or becomes the result, so it outlives the condition.
            collector.add(value, computation, timeline.finish[computation])
    return tuple(tuple(collector.intervals(value)) for value in values.all)


def is_condition(computation: Computation, values: Values) -> bool:
    """True if a while loop runs `computation` to decide whether to go on."""
    caller = values.dataflow.caller(computation)
    return caller is not None and caller.is_a("while") and computation is caller.called[0]


def definition_time(value: Value, timeline: Timeline) -> int:
    """Return the event that defines `value`."""
    if value.inst.opcode.name == "parameter":
        return timeline.begin[value.inst.computation]
    return timeline.end[value.inst]


@dataclass(frozen=True, slots=True)
class _Collector:
    """Collects uses by region: a computation together with those that it runs through `call`."""

    timeline: Timeline
    values: Values
    uses: list[_Uses]
    regions: dict[Computation, Computation] = field(default_factory=dict)

    def add(self, value: Value, computation: Computation, time: int) -> None:
        """Record a use, moved to the end of each loop between it and the definition."""
        home = self._region(value.inst.computation)
        region = at = self._region(computation)
        branches: list[Computation] = []
        while at is not home:
            caller = self.values.dataflow.caller(at)
            assert caller is not None, f"{value} is used where it is not defined"
            outer = self._region(caller.computation)
            if caller.is_a("while"):
                region, time = outer, self.timeline.end[caller]
                branches.clear()
            else:
                branches.append(at)
            at = outer
        uses = self.uses[value.number]
        uses.last[region] = max(time, uses.last.get(region, time))
        for branch in branches:
            caller = self.values.dataflow.caller(branch)
            assert caller is not None
            uses.branches.setdefault(self._region(caller.computation), {})[branch] = None

    def intervals(self, value: Value) -> list[Interval]:
        """Return the intervals of `value`, sorted; at least one."""
        uses = self.uses[value.number]
        home = self._region(value.inst.computation)
        first = definition_time(value, self.timeline)
        if not uses.branches:
            return [Interval(first, uses.last.get(home, first), value)]
        found: list[Interval] = []
        waiting = [(home, first)]
        while waiting:
            region, first = waiting.pop()
            last = uses.last.get(region, first)
            branches = [(b, self._start_of_caller(b)) for b in uses.branches.get(region, ())]
            last = max([last, *(start for _, start in branches)])
            found.append(Interval(first, last, value))
            waiting += ((b, self.timeline.begin[b]) for b, start in branches if start == last)
        return sorted(found, key=lambda interval: interval.first)

    def _region(self, computation: Computation) -> Computation:
        region = self.regions.get(computation)
        if region is None:
            region, caller = computation, self.values.dataflow.caller(computation)
            while caller is not None and not caller.is_a("while", "conditional"):
                region = caller.computation
                caller = self.values.dataflow.caller(region)
            self.regions[computation] = region
        return region

    def _start_of_caller(self, computation: Computation) -> int:
        caller = self.values.dataflow.caller(computation)
        assert caller is not None
        return self.timeline.start[caller]
