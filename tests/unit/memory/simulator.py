"""Runs a buffer assignment on marks instead of numbers; independent of how it was found.

Each new array gets a mark of its own, which is written where the assignment says. Before an array
is read, its place must still hold its mark, whole: so no two live arrays overlap.
"""

from dataclasses import dataclass, field
from typing import Any

from hloc.analysis.dataflow import forwards, nonempty_leaves
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.memory.allocation import OUTPUT, PARAMETER, Slice
from hloc.memory.assigned_buffers import BufferAssignment
from hloc.memory.schedule import Schedule
from hloc.shapes import Shape, ShapeIndex, TupleShape

Marks = Any  # a number, or a tuple of marks

MAX_ROUNDS = 3


@dataclass
class Memory:
    """Marks by place: for each allocation the pieces that are written."""

    pieces: dict[tuple[str, int], list[tuple[int, int, int]]] = field(default_factory=dict)

    def write(self, place: Slice, mark: int) -> None:
        start, end = place.offset, place.offset + place.size_bytes
        pieces = self.pieces.setdefault((place.kind, place.number), [])
        pieces[:] = [p for p in pieces if p[1] <= start or p[0] >= end]
        pieces.append((start, end, mark))

    def read(self, place: Slice) -> int | None:
        wanted = (place.offset, place.offset + place.size_bytes)
        for start, end, mark in self.pieces.get((place.kind, place.number), []):
            if (start, end) == wanted:
                return mark
        return None


@dataclass
class Simulator:
    """One run; `choices` says which branch each conditional takes and how long each loop runs.

    `donated`: parameters that an output may overwrite have the address of that output.
    """

    schedule: Schedule
    assignment: BufferAssignment
    choices: int
    donated: bool = False
    memory: Memory = field(default_factory=Memory)
    marks: int = 0
    decisions: int = 0
    reads: int = 0

    def run(self, entry: Computation) -> None:
        """Run the module; raises AssertionError where an array is not in its place."""
        arguments = []
        for parameter in entry.parameters:
            arguments.append(self.fresh(parameter.shape))
            self.write(parameter, arguments[-1])
        for computation in self.schedule:
            for inst in self.schedule.order(computation):
                if inst.is_a("constant"):
                    self.write(inst, self.constant(inst))
        self.check(entry.root, self.compute(entry, arguments))

    def constant(self, inst: Instruction) -> Marks:
        """Equal constants may share memory, so their mark is their place."""
        places = [self.assignment.slice_of(inst, i).number for i, _ in nonempty_leaves(inst.shape)]
        return -1 - places[0] if places else 0

    def place(self, inst: Instruction, index: ShapeIndex) -> Slice:
        found = self.assignment.slice_of(inst, index)
        for alias in self.assignment.aliases if self.donated else ():
            parameter = Slice(PARAMETER, alias.parameter, 0, alias.size_bytes)
            if alias.is_shared and found == parameter:
                return Slice(OUTPUT, alias.output, 0, alias.size_bytes)
        return found

    def fresh(self, shape: Shape) -> Marks:
        if isinstance(shape, TupleShape):
            return tuple(self.fresh(element) for element in shape.elements)
        self.marks += 1
        return self.marks

    def decide(self, count: int) -> int:
        """Return a number below `count`, the next of a fixed but varied sequence."""
        self.decisions += 1
        return (self.choices * 7 + self.decisions * (self.choices + 1)) % count

    def write(self, inst: Instruction, marks: Marks) -> None:
        for index, _ in nonempty_leaves(inst.shape):
            self.memory.write(self.place(inst, index), at(marks, index))

    def check(self, inst: Instruction, marks: Marks) -> None:
        for index, _ in nonempty_leaves(inst.shape):
            found = self.memory.read(self.place(inst, index))
            assert found == at(marks, index), f"{inst.name}{index} was overwritten"
            self.reads += 1

    def compute(self, computation: Computation, arguments: list[Marks]) -> Marks:
        known: dict[Instruction, Marks] = {}
        for inst in self.schedule.order(computation):
            operands = [known[operand] for operand in inst.operands]
            known[inst] = self.step(inst, operands, arguments)
        return known[computation.root]

    def step(self, inst: Instruction, operands: list[Marks], arguments: list[Marks]) -> Marks:
        name = inst.opcode.name
        if name == "parameter":
            return arguments[inst.attributes.number]
        if name == "constant":
            return self.constant(inst)
        if name == "tuple":
            return tuple(operands)
        if name == "get-tuple-element":
            return operands[0][inst.attributes.index]
        if forwards(inst):
            return operands[0]
        if name == "call":
            return self.compute(inst.called[0], operands)
        if name == "while":
            return self.loop(inst, operands[0])
        if name == "conditional":
            self.check(inst.operands[0], operands[0])
            taken = self.decide(len(inst.called))
            return self.compute(inst.called[taken], [operands[1 + taken]])
        for operand, marks in zip(inst.operands, operands, strict=True):
            self.check(operand, marks)
        scratch = self.assignment.scratch(inst)
        if scratch is not None:
            self.memory.write(scratch, 0)
        result = operands[0] if name == "copy" else self.fresh(inst.shape)
        self.write(inst, result)
        return result

    def loop(self, inst: Instruction, state: Marks) -> Marks:
        condition, body = inst.called
        for _ in range(self.decide(MAX_ROUNDS + 1)):
            self.check(condition.root, self.compute(condition, [state]))
            state = self.compute(body, [state])
        self.check(condition.root, self.compute(condition, [state]))
        return state


def at(marks: Marks, index: ShapeIndex) -> int:
    """Return the mark of a leaf."""
    for i in index:
        marks = marks[i]
    assert isinstance(marks, int)
    return marks
