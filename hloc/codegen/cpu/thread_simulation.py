"""Simulates a compiled program on any number of threads: models the pool and `split_routine`.

The times of kernels are those of the cost model, on cores with nothing else to do. Threads claim
parts as the code does, event by event; the rest are these constants, measured between two cores of
an AMD EPYC (`benchmarks/bench_threads.py`) but for the last, which is what eight channels of
DDR4-3200 move.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from hloc.analysis.call_graph import control_flow_computations
from hloc.analysis.run_counts import loop_trips
from hloc.codegen.cpu.backend import CpuModule
from hloc.codegen.cpu.loop_function import loop_functions
from hloc.codegen.cpu.side_by_side import group_split
from hloc.codegen.cpu.split_kernel import Estimate, Split, moved_nanoseconds
from hloc.codegen.cpu.split_routine import MOST_RANGES, PARTS_OF_SHARE
from hloc.codegen.cpu.thread_pool import IDLE_NANOSECONDS, WAKE_NANOSECONDS
from hloc.codegen.plan.plan import (
    BranchStep,
    CallStep,
    CopyStep,
    KernelStep,
    LoopStep,
    SideBySideStep,
    Step,
)
from hloc.codegen.plan.plan_steps import computation_numbers
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass

_FORK_NANOSECONDS = 300
"""Until an awake thread begins."""

_ENTER_NANOSECONDS = 100
"""Threads enter a run one after the other."""

_CLAIM_NANOSECONDS = 50
"""To claim a part; threads take turns at the counters that all of them write."""

_JOIN_NANOSECONDS = 300
"""Until the caller sees that the last thread has ended."""

_WAKE_NANOSECONDS = 5_000
"""What the caller takes to wake threads."""

_RISE_NANOSECONDS = 40_000
"""Until they run."""

_MEMORY_CORES = 16
"""The memory moves as much as this many cores can."""

_MOST_TRIPS = 3
"""Iterations of a loop that are simulated; the others take as long as the last of them."""

Cost: TypeAlias = Callable[[int, int, float], float]
"""Nanoseconds of the iterations from a first to a last one; the third argument says how much slower
memory is."""


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    """A run on some number of threads.

    Attributes:
        nanoseconds: its time.
        busy: share of that time in which threads compute, on average.
        forks: how often threads were given work.
    """

    threads: int
    nanoseconds: float
    busy: float
    forks: int


def trips_of(module: Module) -> dict[str, int]:
    """Return the trip counts that are known, by the name of the body of the loop.

    Ask before passes run: fusions may hide them.
    """
    return {
        inst.called[1].name: trips
        for computation in control_flow_computations(module)
        for inst in computation.instructions
        if inst.is_a("while") and (trips := loop_trips(inst)) is not None
    }


def thread_counts(most: int) -> list[int]:
    """Return 1, 2, 4 and so on, and `most`."""
    return [*(1 << i for i in range((most - 1).bit_length())), most]


def simulate_threads(compiled: CpuModule, threads: int, trips: Mapping[str, int]) -> SimulatedRun:
    """Simulate a run on `threads` cores, right after another run, so that threads are awake.

    Loops of unknown trip count run once, and branches take their first computation. Calls of the
    host and exchanges between devices take no time.

    Args:
        compiled: the program.
        threads: their number, the caller included.
        trips: trip counts by the name of the body of the loop.
    """
    simulator = _Simulator(compiled, threads, trips)
    simulator.run(compiled.arranged.computations[0])
    time = simulator.time
    return SimulatedRun(
        threads, time, simulator.worked / (time * threads) if time else 1.0, simulator.forks
    )


class Ranges:
    """The ranges of a kernel, from which threads claim parts as `split_routine` writes it."""

    def __init__(self, extent: int, split: Split, shares: int) -> None:
        self.extent, self.grain = extent, split.grain
        share = -(-extent // shares)
        self.floor = split.least if 2 * split.least <= share else self._whole(share)
        self.count = 1 if split.is_ordered else min(shares, MOST_RANGES)
        self.size = self._whole(-(-extent // self.count))
        self.divisor = shares * PARTS_OF_SHARE // self.count
        self.next = [i * self.size for i in range(self.count)]

    def _whole(self, size: int) -> int:
        return -(-size // self.grain) * self.grain

    def claim(self, thread: int) -> tuple[int, int] | None:
        """Return the next part for a thread, None if there is none."""
        home = thread % self.count
        for r in (*range(home, self.count), *range(home)):
            begin, last = self.next[r], min((r + 1) * self.size, self.extent)
            if begin < last:
                part = max(self._whole((last - begin) // self.divisor), self.floor)
                self.next[r] = min(begin + part, last)
                return begin, self.next[r]
        return None


class _Simulator:
    """Runs steps; `time` is the time of the caller.

    Attributes:
        worked: nanoseconds in which threads computed, summed.
        forks: how often threads were given work.
    """

    def __init__(self, compiled: CpuModule, threads: int, trips: Mapping[str, int]) -> None:
        self._plan, self._kernels, self._threads = compiled.arranged, compiled.kernels, threads
        self._trips = {
            number: trips.get(computation.name, 1)
            for computation, number in computation_numbers(compiled.module).items()
        }
        self._inside = {
            number
            for loop in loop_functions(compiled.plan, compiled.kernels).values()
            for number in loop.computations
        }
        self.time = self.worked = 0.0
        self.forks = 0
        self._awake_until = float(IDLE_NANOSECONDS)
        self._missed = 0

    def run(self, steps: Sequence[Step], *, alone: bool = False) -> None:
        """Run steps in order; those of a loop in one function run `alone`."""
        for step in steps:
            match step:
                case KernelStep():
                    kernel = self._kernels[step.kernel]
                    shared = None if alone else kernel.split
                    self._work(kernel.estimate, shared, kernel.extent)
                case SideBySideStep():
                    self._group(step)
                case CopyStep():
                    self._serial(moved_nanoseconds(2 * step.size_bytes))
                case LoopStep():
                    self._loop(step)
                case BranchStep():
                    self._called(step.branches[0])
                case CallStep():
                    self._called(step.computation)

    def _called(self, number: int) -> None:
        self.run(self._plan.computations[number], alone=number in self._inside)

    def _loop(self, step: LoopStep) -> None:
        trips = self._trips[step.body]
        taken = worked = 0.0
        for _ in range(min(trips, _MOST_TRIPS)):
            time, before = self.time, self.worked
            self._called(step.condition)
            self._called(step.body)
            taken, worked = self.time - time, self.worked - before
        left = max(trips - _MOST_TRIPS, 0)
        self.time += left * taken
        self.worked += left * worked
        self._awake_until += left * taken
        self._called(step.condition)

    def _serial(self, nanoseconds: float) -> None:
        self.time += nanoseconds
        self.worked += nanoseconds

    def _work(self, estimate: Estimate, split: Split | None, extent: int) -> None:
        if split is None or self._threads == 1:
            self._serial(estimate.nanoseconds)
            return

        def cost(begin: int, end: int, slower: float) -> float:
            share = (end - begin) / extent
            once = estimate.slowed(slower)
            return once * share + split.repeated_nanoseconds * (begin > 0)

        self._fork(extent, split, cost)

    def _group(self, step: SideBySideStep) -> None:
        estimates = [self._kernels[member.kernel].estimate for member in step.steps]
        if self._threads == 1:
            self._serial(sum(estimate.nanoseconds for estimate in estimates))
            return

        def cost(begin: int, end: int, slower: float) -> float:
            return sum(e.slowed(slower) for e in estimates[begin:end])

        self._fork(len(estimates), group_split(step, self._kernels), cost)

    def _fork(self, extent: int, split: Split, cost: Cost) -> None:
        """Share a kernel; the caller waits for parts that have begun."""
        self.forks += 1
        shares = max(min(self._threads, split.most), 1)
        first = self._first_arrival(split.nanoseconds)
        threads = [(self.time, 0)]
        if first is not None:
            threads += [(first + i * _ENTER_NANOSECONDS, i) for i in range(1, shares)]
        heapq.heapify(threads)
        ranges = Ranges(extent, split, shares)
        slower = max(1.0, shares / _MEMORY_CORES)
        counters_free = ended = self.time
        others_work = False
        while threads:
            time, thread = heapq.heappop(threads)
            part = ranges.claim(thread)
            if part is None:
                continue
            counters_free = max(time, counters_free) + _CLAIM_NANOSECONDS
            taken = cost(*part, slower)
            self.worked += taken
            others_work = others_work or thread > 0
            ended = max(ended, counters_free + taken)
            heapq.heappush(threads, (counters_free + taken, thread))
        self.time = ended + _JOIN_NANOSECONDS * others_work
        if first is not None:
            self._awake_until = self.time + IDLE_NANOSECONDS

    def _first_arrival(self, nanoseconds: int) -> float | None:
        """Return when the other threads begin, None if they sleep and are not woken."""
        if self.time <= self._awake_until:
            return self.time + _FORK_NANOSECONDS
        self._missed += nanoseconds
        if self._missed < WAKE_NANOSECONDS:
            return None
        self._missed = 0
        self.time += _WAKE_NANOSECONDS
        return self.time + _RISE_NANOSECONDS
