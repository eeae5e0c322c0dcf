"""Buffer assignment of a scheduled module: where each array lies in memory.

Values that share a buffer are coalesced (`coalescing.py`). Parameters, outputs and constants are
allocations of their own; temporaries lie in outputs that are not written yet (`idle_outputs.py`),
the others in one arena (`heap.py`). Terms and stages are those of XLA's `BufferAssigner`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType

from hloc.analysis.dataflow import analyse_dataflow, nonempty_leaves
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.literal import Literal
from hloc.memory.aliasing import Boundary, final_aliases, leaves_of, share_with_parameters
from hloc.memory.allocation import (
    ARENA,
    CONSTANT,
    OUTPUT,
    PARAMETER,
    AliasedOutput,
    BufferReport,
    Slice,
)
from hloc.memory.assigned_buffers import Buffer, BufferAssignment, ConstantArray
from hloc.memory.coalescing import BufferClass, Coalescer, merge_optional, merge_required
from hloc.memory.heap import PackFunction, Packing, Request, pack
from hloc.memory.idle_outputs import IdleOutput, place_in_outputs
from hloc.memory.live_range import Interval, live_ranges
from hloc.memory.schedule import Schedule
from hloc.memory.values import Timeline, Value, Values, find_values, lay_out, operand_leaves
from hloc.shapes import ArrayShape, ShapeIndex, data_leaves


def assign_buffers(
    module: Module,
    schedule: Schedule,
    scratch_bytes: Callable[[Instruction], int] = lambda inst: 0,
    pack: PackFunction = pack,
    *,
    share_outputs: bool = True,
) -> BufferAssignment:
    """Assign a buffer to every array of a scheduled module.

    Args:
        module: after `flatten-call-graph` and `copy-insertion`.
        schedule: of this module.
        scratch_bytes: scratch bytes that an instruction needs while it runs.
        pack: places temporaries in the arena.
        share_outputs: temporaries may lie in outputs that are not written yet.

    Cost: O(n log n) in the instructions for all but pathological live ranges.
    """
    dataflow = analyse_dataflow(module)
    timeline = lay_out(module.entry, schedule, dataflow)
    values = find_values(timeline, dataflow, module.entry)
    coalescer = Coalescer(timeline, values)
    coalescer.start(live_ranges(timeline, values))
    merge_required(coalescer)
    boundary = _boundary(module, values)
    pairs = share_with_parameters(module, coalescer, boundary)
    merge_optional(coalescer)
    aliases = final_aliases(pairs, coalescer)
    return _Assigner(module, timeline, values, coalescer, pack, share_outputs, aliases).run(
        scratch_bytes
    )


def _boundary(module: Module, values: Values) -> Boundary:
    def parts(owner: int, inst: Instruction) -> list[tuple[int, ShapeIndex, Value | None]]:
        return [
            (owner, index, values.at(inst, index) if shape.size_bytes else None)
            for index, shape in data_leaves(inst.shape)
        ]

    parameters = [p for i, inst in enumerate(module.entry.parameters) for p in parts(i, inst)]
    return Boundary(leaves_of(parameters), leaves_of(parts(-1, module.entry.root)))


@dataclass(slots=True)
class _Assigner:
    """Assigns a slice to each buffer class."""

    module: Module
    timeline: Timeline
    values: Values
    coalescer: Coalescer
    pack: PackFunction
    share_outputs: bool
    aliases: tuple[AliasedOutput, ...]

    def run(self, scratch_bytes: Callable[[Instruction], int]) -> BufferAssignment:
        """Assign constants, parameters and outputs, then temporaries to what memory is left."""
        constants, slices = self._constants()
        parameters = self._assign_parameters(slices)
        outputs, output_classes = self._assign_outputs(slices)
        scratch, packing = self._arena(slices, output_classes, scratch_bytes)
        same = {
            Slice(PARAMETER, a.parameter, 0, a.size_bytes): Slice(OUTPUT, a.output, 0, a.size_bytes)
            for a in self.aliases
            if a.how == "overwritten"
        }
        return BufferAssignment(
            self.values,
            self.timeline,
            packing.total_bytes,
            tuple(constants),
            parameters,
            outputs,
            self._report(slices, packing, constants),
            self._buffers(slices, output_classes, scratch),
            tuple(slices[value.number] for value in self.values.all),
            MappingProxyType(scratch),
            self.aliases,
            MappingProxyType(same),
        )

    def _assign_parameters(self, slices: dict[int, Slice]) -> tuple[ArrayShape, ...]:
        """Add the slices of the entry's parameters; return the shapes of their leaves."""
        leaves = [
            (parameter, index, shape)
            for parameter in self.module.entry.parameters
            for index, shape in data_leaves(parameter.shape)
        ]
        for number, (parameter, index, shape) in enumerate(leaves):
            if shape.size_bytes:
                value = self.values.at(parameter, index)
                slices[value.number] = Slice(PARAMETER, number, 0, shape.size_bytes)
        return tuple(shape for _, _, shape in leaves)

    def _assign_outputs(
        self, slices: dict[int, Slice]
    ) -> tuple[tuple[ArrayShape, ...], dict[int, BufferClass]]:
        """Add the slices of all values that share a buffer with an output.

        A parameter that is updated in place moves to the slice of its output.

        Returns:
            The shapes of the output leaves, and the buffer class of each that has elements.
        """
        root = self.module.entry.root
        leaves = data_leaves(root.shape)
        classes: dict[int, BufferClass] = {}
        in_place = {alias.output for alias in self.aliases if alias.how == "in place"}
        for number, (index, shape) in enumerate(leaves):
            if shape.size_bytes:
                value = self.values.at(root, index)
                assert value.number not in slices, f"output {number} has no buffer of its own"
                place = Slice(OUTPUT, number, 0, shape.size_bytes)
                classes[number] = self.coalescer.class_of[value.number]
                for member in classes[number].members:
                    if member.number not in slices or number in in_place:
                        slices[member.number] = place
        return tuple(shape for _, shape in leaves), classes

    def _constants(self) -> tuple[list[ConstantArray], dict[int, Slice]]:
        """Return the constant arrays without duplicates, and the slices of constant values."""
        constants: list[ConstantArray] = []
        numbers: dict[tuple[Literal, ArrayShape], int] = {}
        slices: dict[int, Slice] = {}
        for value in self.values.all:
            if value.inst.opcode.name != "constant":
                continue
            literal = _literal_at(value.inst.attributes.literal, value.index)
            number = numbers.setdefault((literal, value.shape), len(numbers))
            if number == len(constants):
                constants.append(ConstantArray(literal, value.shape))
            slices[value.number] = Slice(CONSTANT, number, 0, value.size_bytes)
        return constants, slices

    def _arena(
        self,
        slices: dict[int, Slice],
        outputs: dict[int, BufferClass],
        scratch_bytes: Callable[[Instruction], int],
    ) -> tuple[dict[Instruction, Slice], Packing]:
        """Place the remaining classes and scratch memory; `outputs` are those with elements."""
        classes: dict[int, BufferClass] = {}
        for value in self.values.all:
            if value.number not in slices:
                found = self.coalescer.class_of[value.number]
                classes.setdefault(found.members[0].number, found)
        requests = [
            Request(
                found.members[0].size_bytes,
                found.intervals[0].first,
                max(interval.last for interval in found.intervals),
            )
            for found in classes.values()
        ]
        users = []
        for inst in self.timeline.order:
            size = scratch_bytes(inst)
            if size:
                users.append((inst, size))
                requests.append(Request(size, self.timeline.start[inst], self.timeline.end[inst]))
        places, packing = self._placed(requests, outputs)
        for found, place in zip(classes.values(), places, strict=False):
            for member in found.members:
                slices[member.number] = place
        scratch = {
            inst: place for (inst, _), place in zip(users, places[len(classes) :], strict=True)
        }
        return scratch, packing

    def _placed(
        self, requests: list[Request], outputs: dict[int, BufferClass]
    ) -> tuple[list[Slice], Packing]:
        """Place temporaries in idle outputs, the rest in the arena."""
        idle = [
            IdleOutput(found.members[0].size_bytes, [(i.first, i.last) for i in found.intervals])
            for found in outputs.values()
            if self.share_outputs
        ]
        in_outputs = place_in_outputs(requests, idle)
        rest = [request for request, place in zip(requests, in_outputs, strict=True) if not place]
        packing = self.pack(rest)
        offsets, numbers = iter(packing.offsets), list(outputs)
        places = [
            Slice(OUTPUT, numbers[place[0]], place[1], request.size_bytes)
            if place
            else Slice(ARENA, 0, next(offsets), request.size_bytes)
            for request, place in zip(requests, in_outputs, strict=True)
        ]
        return places, packing

    def _buffers(
        self,
        slices: dict[int, Slice],
        outputs: dict[int, BufferClass],
        scratch: dict[Instruction, Slice],
    ) -> tuple[Buffer, ...]:
        """Return every buffer with the intervals in which it is in use, in the order of first use.

        A class with members in several slices (a donated parameter and the output that is written
        over it) is shown in the output. Scratch memory is a buffer of its own, without values.
        """
        classes = {id(found): found for found in self.coalescer.class_of}.values()
        of_outputs = {id(found) for found in outputs.values()}
        found = []
        for c in classes:
            places = [slices[member.number] for member in c.members]
            place = next((p for p in places if p.kind == OUTPUT), places[0])
            is_guest = place.kind == OUTPUT and id(c) not in of_outputs
            first = c.members[0].inst
            found.append(Buffer(place, first, tuple(c.members), _merged(c.intervals), is_guest))
        for inst, place in scratch.items():
            busy = (self.timeline.start[inst], self.timeline.end[inst])
            found.append(Buffer(place, inst, (), (busy,), place.kind == OUTPUT))
        return tuple(sorted(found, key=lambda buffer: buffer.busy[0]))

    def _report(
        self, slices: dict[int, Slice], packing: Packing, constants: list[ConstantArray]
    ) -> BufferReport:
        """Add up the bytes of each kind of allocation, and count what sharing buffers saved."""
        copies = in_place = elided = 0
        for value in self.values.all:
            inst = value.inst
            if value.is_phi or value.fixed:
                continue
            shares = any(
                slices[self.values.at(inst.operands[number], index).number] == slices[value.number]
                for number, index in operand_leaves(inst)
            )
            in_place += shares
            copies += inst.is_a("copy")
            elided += shares and inst.is_a("copy")
        aliased = sum(alias.size_bytes for alias in self.aliases if alias.is_shared)
        return BufferReport(
            packing.total_bytes,
            sum(constant.shape.size_bytes for constant in constants),
            sum(parameter.shape.size_bytes for parameter in self.module.entry.parameters),
            sum(shape.size_bytes for _, shape in nonempty_leaves(self.module.entry.root.shape))
            - aliased,
            packing.lower_bound_bytes,
            in_place,
            copies,
            elided,
            aliased,
        )


def _merged(intervals: Sequence[Interval]) -> tuple[tuple[int, int], ...]:
    """Return first and last event of each interval, intervals that touch merged into one."""
    found: list[tuple[int, int]] = []
    for interval in intervals:
        if found and interval.first <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], interval.last))
        else:
            found.append((interval.first, interval.last))
    return tuple(found)


def _literal_at(literal: Literal, index: ShapeIndex) -> Literal:
    for i in index:
        assert isinstance(literal.value, tuple)
        literal = literal.value[i]
    return literal
