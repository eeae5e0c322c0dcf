"""Which collectives are hidden behind independent work, on a modelled device and network.

A computation runs its instructions in order on one stream. An asynchronous collective runs
concurrently from its start to its done, after those started before it; the time that the done waits
is exposed. A synchronous collective is fully exposed; its slack is the work of the same computation
that neither depends on it nor is needed by it, which could hide an asynchronous one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from hloc.analysis.call_graph import control_flow_computations
from hloc.analysis.compute_time import ComputeTime
from hloc.analysis.network.collective_cost import exchange_of, seconds_of
from hloc.analysis.network.links import Network
from hloc.analysis.run_counts import loop_trips
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass

OrderOf = Callable[[Computation], Sequence[Instruction]]
"""The instructions of a computation in the order in which they run."""

_MOST_WALKS = 500_000
"""Maximum number of visits for slack in total; further collectives get none."""


@dataclass(frozen=True, slots=True)
class CollectiveTiming:
    """The modelled time of one run of a collective.

    Attributes:
        inst: the collective, or the instruction that starts it.
        seconds: on the network.
        exposed_seconds: the part of them that the device waits.
        slack_seconds: of independent work in the same computation.
        is_async: True if it is split into start and done.
    """

    inst: Instruction
    seconds: float
    exposed_seconds: float
    slack_seconds: float
    is_async: bool


@dataclass(frozen=True, slots=True)
class Timeline:
    """The model of one run.

    Attributes:
        collectives: every collective, in the order of the computations, callees first.
        seconds: from start to end on one device.
    """

    collectives: tuple[CollectiveTiming, ...]
    seconds: float


def timeline(module: Module, compute: ComputeTime, network: Network, order_of: OrderOf) -> Timeline:
    """Return the model of one run of `module` on one of its devices."""
    collectives: list[CollectiveTiming] = []
    lasting: dict[Computation, float] = {}
    for computation in control_flow_computations(module):
        if any(caller.is_a("async-start") for caller in computation.callers):
            continue  # the start counts
        order = order_of(computation)
        found, lasting[computation] = run_in_order(order, compute, network, lasting)
        collectives += found
    return Timeline(tuple(_with_slack(collectives, compute)), lasting[module.entry])


def run_in_order(
    order: Sequence[Instruction],
    compute: ComputeTime,
    network: Network,
    lasting: Mapping[Computation, float],
) -> tuple[list[CollectiveTiming], float]:
    """Return the collectives of one run of a computation, without slack, and its time.

    Args:
        order: the instructions in the order in which they run.
        compute: the time of each on one device.
        network: the network of the collectives.
        lasting: the time of each called computation.
    """
    now = free = 0.0  # when the stream and the network are free
    started: dict[Instruction, tuple[int, float]] = {}
    found: list[CollectiveTiming] = []
    for inst in order:
        collective = exchange_of(inst)
        if collective is not None:
            seconds = seconds_of(collective, network)
            end = max(now, free) + seconds
            is_async = bool(inst.opcode.ended_by)
            if is_async:
                started[inst] = len(found), end
            waits = 0.0 if is_async else end - now
            found.append(CollectiveTiming(inst, seconds, waits, 0.0, is_async))
            now, free = now + waits, end
        elif (start := started_by(inst)) in started and not inst.opcode.ended_by:
            assert start is not None
            number, end = started.pop(start)
            waits = max(0.0, end - now)
            found[number] = replace(found[number], exposed_seconds=waits)
            now += waits
        else:
            now += step_seconds(inst, compute, lasting)
    return found, max(now, free)


def started_by(inst: Instruction) -> Instruction | None:
    """Return the start of a done or update; None for other instructions."""
    at = inst
    while at.operands and at.operands[0].opcode.ended_by and len(at.operands) == 1:
        at = at.operands[0]
        if not at.is_a("async-update"):
            return at
    return None


def step_seconds(
    inst: Instruction, compute: ComputeTime, lasting: Mapping[Computation, float]
) -> float:
    """Return the time of an instruction other than a collective, including what it calls."""
    if not inst.opcode.control_flow or inst.is_a("async-start"):
        return compute(inst)
    each = [lasting.get(called, 0.0) for called in inst.called]
    if inst.is_a("while"):
        trips = loop_trips(inst)
        trips = 1 if trips is None else trips
        return each[1] * trips + each[0] * (trips + 1)
    return max(each, default=0.0)


def _with_slack(
    collectives: Iterable[CollectiveTiming], compute: ComputeTime
) -> list[CollectiveTiming]:
    left = _MOST_WALKS
    found = []
    for timing in collectives:
        computation = timing.inst.computation
        left -= len(computation)
        if left < 0:
            found.append(timing)
            continue
        found.append(replace(timing, slack_seconds=slack_of(timing.inst, compute)))
    return found


def slack_of(inst: Instruction, compute: ComputeTime) -> float:
    """Return the time of the work in the computation that may overlap with `inst`.

    Cost: O(instructions of the computation).
    """
    tied = _ordered_with(inst)
    return sum(compute(i) for i in inst.computation.instructions if i not in tied)


def _ordered_with(inst: Instruction) -> set[Instruction]:
    """Return `inst`, all it depends on, and all that depends on it, in its computation."""
    tied = {inst}
    for adjacent in (_before, _after):
        seen, stack = {inst}, [inst]
        while stack:
            for other in adjacent(stack.pop()):
                if other not in seen:
                    seen.add(other)
                    stack.append(other)
        tied |= seen
    return tied


def _before(inst: Instruction) -> Iterable[Instruction]:
    return (*inst.operands, *inst.control_predecessors)


def _after(inst: Instruction) -> Iterable[Instruction]:
    return inst.users
