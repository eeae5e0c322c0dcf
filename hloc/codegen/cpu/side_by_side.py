"""Kernels side by side: independent kernels of a computation that threads run at the same time.

Kernels that are too small to be divided, or cannot be, are the parts of one function; see
`split_routine` for how threads claim them:

    void beside_NUMBER(ptr %table, ptr %scratch, i64 %begin, i64 %end)

Kernels are independent if none writes memory that another reads or writes. Their order is that of
estimated times, the longest first, so that threads end at about the same time. A thread other than
the caller has scratch memory of its own, in `scratch`; for the caller that is null, and kernels get
theirs from the table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import field, replace

from hloc.codegen.cpu.kernel import Kernel
from hloc.codegen.cpu.split_kernel import Split
from hloc.codegen.plan.areas import Area, leaves_of
from hloc.codegen.plan.plan import CopyStep, KernelStep, Plan, SideBySideStep, Step
from hloc.codegen.plan.pointer_table import Place
from hloc.lazy_dataclass import dataclass

_MIN_NANOSECONDS = 20_000
"""Kernels run side by side if they take at least this long, twenty times a fork and join."""

_MEMBER_NANOSECONDS = 2_000
"""Shorter kernels stay where they are."""

_GAIN_NANOSECONDS = 5_000
"""And if all but the longest take at least this long."""

_MOST_PASSED = 8
"""Steps between the first kernel and the last that stay behind the group."""

_MOST_MEMBERS = 64


def arranged(plan: Plan, kernels: Sequence[Kernel], inside: Collection[int]) -> Plan:
    """Return `plan` with independent kernels side by side.

    Args:
        plan: a plan of single kernels.
        kernels: its kernels, by number.
        inside: numbers of computations to be left as they are: those of `loop_functions`.
    """
    arranger = _Arranger(plan, kernels)
    computations = (
        steps if number in inside else tuple(arranger.arranged(steps))
        for number, steps in enumerate(plan.computations)
    )
    return replace(plan, computations=tuple(computations))


def groups_of(plan: Plan) -> tuple[SideBySideStep, ...]:
    """Return the groups of an arranged plan, by number."""
    steps = (step for steps in plan.computations for step in steps)
    return tuple(step for step in steps if isinstance(step, SideBySideStep))


def group_name(group: SideBySideStep) -> str:
    """Return the name of the function of a group."""
    return f"beside_{group.number}"


def group_split(group: SideBySideStep, kernels: Sequence[Kernel]) -> Split:
    """Return the partition of a group: a kernel is a part."""
    nanoseconds = sum(kernels[step.kernel].nanoseconds for step in group.steps)
    return Split(1, 1, len(group.steps), nanoseconds, is_ordered=True)


def group_scratch_bytes(group: SideBySideStep, kernels: Sequence[Kernel]) -> int:
    """Return the scratch memory that a thread needs for any kernel of a group."""
    return max(kernels[step.kernel].scratch_bytes for step in group.steps)


def group_lines(
    group: SideBySideStep, kernels: Sequence[Kernel], pointer: Callable[[Place], str]
) -> Iterator[str]:
    """Yield the body of the function of a group, after its first label.

    Args:
        group: the kernels that it calls.
        kernels: all kernels, by number.
        pointer: returns the name of the pointer to a place.
    """
    labels = " ".join(f"i64 {i}, label %member.{i}" for i in range(len(group.steps)))
    yield "  %is.caller = icmp eq ptr %scratch, null"
    yield "  br label %next"
    yield "next:"
    yield "  %i = phi i64 [ %begin, %entry ], [ %more, %after ]"
    yield f"  switch i64 %i, label %after [{labels}]"
    for i, step in enumerate(group.steps):
        kernel = kernels[step.kernel]
        pointers = [f"ptr {pointer(place)}" for place in step.arguments]
        yield f"member.{i}:"
        if kernel.scratch_bytes:
            yield f"  %scratch.{i} = select i1 %is.caller, {pointers[-1]}, ptr %scratch"
            pointers[-1] = f"ptr %scratch.{i}"
        yield f"  call void @{kernel.name}({', '.join(pointers)}, i64 0, i64 {kernel.extent})"
        yield "  br label %after"
    yield "after:"
    yield "  %more = add i64 %i, 1"
    yield "  %are.left = icmp ult i64 %more, %end"
    yield "  br i1 %are.left, label %next, label %last"
    yield "last:"


@dataclass(slots=True)
class _Access:
    """The memory that steps read, write, and use as scratch memory."""

    read: list[Area] = field(default_factory=list)
    written: list[Area] = field(default_factory=list)
    scratch: list[Area] = field(default_factory=list)

    def add(self, other: _Access) -> None:
        self.read += other.read
        self.written += other.written
        self.scratch += other.scratch

    def is_independent(self, other: _Access) -> bool:
        """True if threads with scratch memory of their own may use both at the same time."""
        return not any(
            mine.overlaps(its)
            for first, second in ((self, other), (other, self))
            for mine in (*first.written, *first.scratch)
            for its in (*second.read, *second.written)
        )


@dataclass(slots=True)
class _Steps:
    """The steps of a computation.

    Attributes:
        joins: by position, whether it is a kernel that may run beside others.
        taken: positions of those in a group.
        known: the memory of steps that has been looked at, by position.
    """

    steps: Sequence[Step]
    joins: Sequence[bool]
    taken: set[int] = field(default_factory=set)
    known: dict[int, _Access | None] = field(default_factory=dict)


class _Arranger:
    def __init__(self, plan: Plan, kernels: Sequence[Kernel]) -> None:
        self._plan, self._kernels = plan, kernels
        self._groups = 0
        first, second = plan.table.first_parameter, plan.table.first_output
        self._same_memory = {
            second + pair.output: first + pair.parameter
            for pair in plan.assignment.aliases
            if pair.is_shared
        }

    def arranged(self, steps: Sequence[Step]) -> Iterator[Step]:
        """Yield the steps; a group is where its first kernel was."""
        state = _Steps(steps, [self._may_join(step) for step in steps])
        for position, step in enumerate(steps):
            if position in state.taken:
                continue
            members = self._group(state, position) if state.joins[position] else {}
            times = sorted(self._kernels[member.kernel].nanoseconds for member in members.values())
            if sum(times) < _MIN_NANOSECONDS or sum(times[:-1]) < _GAIN_NANOSECONDS:
                yield step
            else:
                state.taken.update(members)
                yield self._side_by_side([*members.values()])

    def _group(self, state: _Steps, start: int) -> dict[int, KernelStep]:
        """Return the steps from `start` that may run side by side, by position."""
        used = _Access()
        members: dict[int, KernelStep] = {}
        passed = 0
        for position in range(start, len(state.steps)):
            step = state.steps[position]
            if position in state.taken:
                continue
            if position not in state.known:
                state.known[position] = self._access(step)
            access = state.known[position]
            if access is None or len(members) == _MOST_MEMBERS:
                break
            joins = state.joins[position] and used.is_independent(access)
            if joins and isinstance(step, KernelStep):
                members[position] = step
            else:
                passed += 1
            left = _MOST_PASSED - passed
            if not any(state.joins[position + 1 : position + 2 + left]):
                break
            used.add(access)
        return members

    def _may_join(self, step: Step) -> bool:
        if not isinstance(step, KernelStep) or step.in_place is not None:
            return False
        kernel = self._kernels[step.kernel]
        calls_library = bool(self._plan.kernels[step.kernel].library_function)
        is_short = kernel.nanoseconds < _MEMBER_NANOSECONDS
        return kernel.split is None and not is_short and not calls_library

    def _access(self, step: Step) -> _Access | None:
        """Return the memory of a kernel or a copy, None for steps that nothing passes."""
        if isinstance(step, CopyStep):
            areas = [self._area(place, step.size_bytes) for place in (step.source, step.target)]
            return _Access(areas[:1], areas[1:])
        if not isinstance(step, KernelStep):
            return None
        request = self._plan.kernels[step.kernel]
        leaves, operands = leaves_of(request.inst)
        areas = [
            self._area(place, size)
            for place, (size, _) in zip(step.arguments, leaves, strict=False)
        ]
        written = areas[operands:]
        scratch = [self._area(p, request.scratch_bytes) for p in step.arguments[len(leaves) :]]
        return _Access(areas[:operands], written, scratch)

    def _area(self, place: Place, size: int) -> Area:
        slot = self._same_memory.get(place.slot)
        return Area(place if slot is None else Place(slot, place.offset), size)

    def _side_by_side(self, steps: Sequence[KernelStep]) -> SideBySideStep:
        """Return one step for several kernels, the longest first."""

        def time(step: KernelStep) -> int:
            return self._kernels[step.kernel].nanoseconds

        number, self._groups = self._groups, self._groups + 1
        return SideBySideStep(number, tuple(sorted(steps, key=time, reverse=True)))
