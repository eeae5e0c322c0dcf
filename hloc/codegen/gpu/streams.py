"""Assigns the steps of a plan to streams, so that independent steps run concurrently.

A pure function of the plan: steps are ordered only if one accesses bytes that another writes. Steps
are numbered within a straight run, a sequence without control flow on the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from itertools import groupby
from typing import TypeAlias

from hloc.codegen.gpu.kernel import GpuKernel
from hloc.codegen.plan.plan import CopyStep, KernelStep, Plan, Step
from hloc.codegen.plan.pointer_table import Place
from hloc.lazy_dataclass import dataclass
from hloc.shapes import array_leaves

STREAMS = 4
"""The number in XLA; most modules do not profit from more."""

_OUTSIDE = Place(-1)
"""Represents external state, so that kernels with side effects run in order."""

StraightStep: TypeAlias = KernelStep | CopyStep


@dataclass(frozen=True, slots=True)
class Access:
    """Bytes that a step reads or writes."""

    place: Place
    size_bytes: int
    is_write: bool


@dataclass(frozen=True, slots=True)
class StreamStep:
    """A step, and its stream.

    Attributes:
        waits: numbers of earlier steps of the run, on other streams, that must end before it.
    """

    step: StraightStep
    stream: int
    waits: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class StraightRun:
    """Steps that need the host for their launch only.

    Attributes:
        number: position in its computation's list; unique in a module together with
            `computation`.
    """

    computation: int
    number: int
    steps: tuple[StreamStep, ...]


def straight_runs(
    plan: Plan, kernels: Sequence[GpuKernel]
) -> tuple[tuple[StraightRun | Step, ...], ...]:
    """Return the steps of every computation, with adjacent straight ones grouped into runs."""
    result = []
    for computation, steps in enumerate(plan.computations):
        items: list[StraightRun | Step] = []
        for is_straight, group in groupby(steps, lambda s: isinstance(s, KernelStep | CopyStep)):
            if not is_straight:
                items += group
                continue
            straight = [step for step in group if isinstance(step, KernelStep | CopyStep)]
            accesses = [accesses_of(step, plan, kernels) for step in straight]
            assigned = assign(dependencies(accesses))
            placed = tuple(
                StreamStep(step, stream, waits)
                for step, (stream, waits) in zip(straight, assigned, strict=True)
            )
            items.append(StraightRun(computation, len(items), placed))
        result.append(tuple(items))
    return tuple(result)


def accesses_of(step: StraightStep, plan: Plan, kernels: Sequence[GpuKernel]) -> tuple[Access, ...]:
    """Return the accesses of `step`; scratch memory counts as written."""
    if isinstance(step, CopyStep):
        return (
            Access(step.source, step.size_bytes, False),
            Access(step.target, step.size_bytes, True),
        )
    inst = plan.kernels[step.kernel].inst
    read = [shape.size_bytes for shape in inst.operand_arrays]
    written = [shape.size_bytes for shape in array_leaves(inst.shape)]
    sizes = [*read, *written]
    if len(step.arguments) > len(sizes):
        sizes.append(kernels[step.kernel].scratch_bytes)
    result = [
        Access(place, size, number >= len(read))
        for number, (place, size) in enumerate(zip(step.arguments, sizes, strict=True))
        if size
    ]
    if inst.opcode.side_effect:
        result.append(Access(_OUTSIDE, 1, True))
    return tuple(result)


@dataclass(slots=True)
class _Slot:
    """The accesses to bytes of one slot on which later steps may depend."""

    reads: list[tuple[int, int, int]] = field(default_factory=list)
    writes: list[tuple[int, int, int]] = field(default_factory=list)


def dependencies(accesses: Sequence[Sequence[Access]]) -> tuple[frozenset[int], ...]:
    """Return for each step the earlier steps that it depends on directly.

    Two steps are ordered if they access the same bytes and one of them writes. A write hides
    earlier accesses to the bytes that it covers, since a wait for it implies a wait for them.
    """
    slots: dict[int, _Slot] = {}
    result = []
    for number, touched in enumerate(accesses):
        before: set[int] = set()
        for access in touched:
            slot = slots.setdefault(access.place.slot, _Slot())
            begin = access.place.offset
            end = begin + access.size_bytes
            before |= {n for b, e, n in slot.writes if b < end and begin < e}
            if access.is_write:
                before |= {n for b, e, n in slot.reads if b < end and begin < e}
        for access in touched:
            slot = slots[access.place.slot]
            begin = access.place.offset
            end = begin + access.size_bytes
            if access.is_write:
                slot.reads = [r for r in slot.reads if not (begin <= r[0] and r[1] <= end)]
                slot.writes = [w for w in slot.writes if not (begin <= w[0] and w[1] <= end)]
                slot.writes.append((begin, end, number))
            else:
                slot.reads.append((begin, end, number))
        result.append(frozenset(before - {number}))
    return tuple(result)


def assign(
    before: Sequence[frozenset[int]], streams: int = STREAMS
) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """Return the stream of every step, and the fewest waits that keep the order.

    A step goes to the stream of its latest dependency if that is the last step there, else to the
    stream that was idle longest. A wait is omitted if another one, or the stream, implies it.
    """
    last = [-1] * streams  # the latest step of each stream
    stream_of: list[int] = []
    known: list[list[int]] = []  # per step: the latest step of each stream that ended before it
    result = []
    for number, needed in enumerate(before):
        ready = [s for s in range(streams) if last[s] in needed]
        if ready:
            stream = max(ready, key=lambda s: last[s])
        else:
            stream = min(range(streams), key=lambda s: last[s])
        seen = list(known[last[stream]]) if last[stream] >= 0 else [-1] * streams
        waits = []
        for other in sorted(needed, reverse=True):
            if seen[stream_of[other]] < other:
                waits.append(other)
                seen = [max(pair) for pair in zip(seen, known[other], strict=True)]
        seen[stream] = last[stream] = number
        stream_of.append(stream)
        known.append(seen)
        result.append((stream, tuple(sorted(waits))))
    return tuple(result)
