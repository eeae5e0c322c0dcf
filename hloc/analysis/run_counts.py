"""Execution counts of computations in one run of a module: products of trip counts.

A loop of unknown trip count counts as one iteration, and both branches of a conditional count
as taken; such counts are not `exact`.
"""

from __future__ import annotations

import re

from hloc.analysis.call_graph import control_flow_computations
from hloc.analysis.trip_count import trip_count
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass

_KNOWN = re.compile(r'"known_trip_count"\s*:\s*\{\s*"n"\s*:\s*"?(\d{1,18})"?')


@dataclass(frozen=True, slots=True)
class RunCount:
    """The execution count of a computation; `exact` if it is known, not assumed."""

    times: int
    exact: bool


def run_counts(module: Module) -> dict[Computation, RunCount]:
    """Return the count of each control-flow computation, bodies of async calls included."""
    counts = {module.entry: RunCount(1, True)}
    for computation in reversed(control_flow_computations(module)):  # callers first
        own = counts.setdefault(computation, RunCount(0, True))
        for inst in computation.instructions:
            if inst.opcode.control_flow:
                _count_called(inst, own, counts)
    return counts


def _count_called(inst: Instruction, own: RunCount, counts: dict[Computation, RunCount]) -> None:
    trips = loop_trips(inst) if inst.is_a("while") else 1
    for number, called in enumerate(inst.called):
        extra = int(inst.is_a("while") and number == 0)  # the condition runs once more
        times = own.times * ((1 if trips is None else trips) + extra)
        exact = own.exact and trips is not None and not inst.is_a("conditional")
        before = counts.get(called, RunCount(0, True))
        counts[called] = RunCount(before.times + times, before.exact and exact)


def loop_trips(loop: Instruction) -> int | None:
    """Return the trip count of a loop: XLA's annotation, else what analysis finds."""
    written = _KNOWN.search(str(loop.common.backend_config or ""))
    if written:
        return int(written[1])
    found = trip_count(loop)
    return None if found is None else found.count
