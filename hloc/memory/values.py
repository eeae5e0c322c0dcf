"""Values: the array leaves that instructions define, in program order.

Tuples, calls and other instructions that move no bytes define no values (`analysis/dataflow.py`).
"""

from __future__ import annotations

from typing import Any

from hloc.analysis.dataflow import Dataflow, Position, forwards, nonempty_leaves
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.memory.schedule import Schedule
from hloc.shapes import ArrayShape, ShapeIndex


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """An array with one definition; `number` counts from 0 in program order.

    Attributes:
        fixed: an entry parameter or a constant, which must not be overwritten.
        is_phi: it takes one of several values: loop state, the result of a loop or a conditional.
    """

    number: int
    inst: Instruction
    index: ShapeIndex
    shape: ArrayShape
    fixed: bool
    is_phi: bool

    def __repr__(self) -> str:
        index = "".join(f"{{{i}}}" for i in self.index)
        return f"{self.inst.name}{index}"

    @property
    def size_bytes(self) -> int:
        return self.shape.size_bytes


@dataclass(frozen=True, slots=True)
class Values:
    """All values of a scheduled module."""

    dataflow: Dataflow
    all: tuple[Value, ...]
    _by_position: dict[Position, Value]  # of positions that forward a value, those asked for

    def at(self, inst: Instruction, index: ShapeIndex) -> Value:
        """Return the value that leaf `index` of `inst` holds; the leaf has elements."""
        value = self._by_position.get((inst, index))
        if value is None:
            value = self._by_position[self.dataflow.source(inst, index)]
            self._by_position[inst, index] = value
        return value


@dataclass(frozen=True, slots=True)
class Timeline:
    """Numbers for the events of a scheduled module, as if it ran straight through.

    A loop counts as one run of condition and body, a conditional as its branches one after the
    other. An instruction that calls nothing starts and ends at the same time.
    """

    order: tuple[Instruction, ...]
    start: dict[Instruction, int]
    end: dict[Instruction, int]
    begin: dict[Computation, int]
    finish: dict[Computation, int]


def lay_out(entry: Computation, schedule: Schedule, dataflow: Dataflow) -> Timeline:
    """Return the timeline of `entry` and of all computations that it runs."""
    order: list[Instruction] = []
    start: dict[Instruction, int] = {}
    end: dict[Instruction, int] = {}
    begin: dict[Computation, int] = {}
    finish: dict[Computation, int] = {}
    events: list[tuple[str, Any]] = [("begin", entry)]
    now = 0
    while events:
        event, what = events.pop()
        if event == "begin":
            begin[what] = now
            events.append(("finish", what))
            events += (("start", inst) for inst in reversed(schedule.order(what)))
        elif event == "start":
            order.append(what)
            start[what] = end[what] = now
            called = [c for c in what.called if dataflow.caller(c) is what]
            if called:
                events.append(("end", what))
                events += (("begin", computation) for computation in reversed(called))
        elif event == "end":
            end[what] = now
        else:
            finish[what] = now
        now += 1
    return Timeline(tuple(order), start, end, begin, finish)


def find_values(timeline: Timeline, dataflow: Dataflow, entry: Computation) -> Values:
    """Return the values that the instructions on `timeline` define."""
    found: dict[Position, Value] = {}
    for inst in timeline.order:
        opcode = inst.opcode.name
        if opcode in ("tuple", "get-tuple-element"):
            continue
        is_parameter = opcode == "parameter"
        fixed = opcode == "constant" or (is_parameter and inst.computation is entry)
        is_phi = opcode in ("while", "conditional") or (is_parameter and not fixed)
        for index, shape in nonempty_leaves(inst.shape):
            if dataflow.source(inst, index) == (inst, index):
                found[inst, index] = Value(len(found), inst, index, shape, fixed, is_phi)
    return Values(dataflow, tuple(found.values()), found)


def operand_leaves(inst: Instruction) -> list[tuple[int, ShapeIndex]]:
    """Return the array leaves of the operands of `inst`: operand number and index."""
    return [
        (number, index)
        for number, operand in enumerate(inst.operands)
        for index, _ in nonempty_leaves(operand.shape)
    ]


def read_leaves(inst: Instruction, dataflow: Dataflow) -> list[tuple[int, ShapeIndex]]:
    """Return the operand leaves whose bytes `inst` reads when it starts."""
    opcode = inst.opcode
    if opcode.name == "conditional":
        return [(0, ())]
    if opcode.name == "while":
        return [leaf for leaf in operand_leaves(inst) if leaf[1] not in dataflow.invariant(inst)]
    if not opcode.has_kernel or forwards(inst) or opcode.name == "copy-start":
        return []
    return operand_leaves(inst)


def read_at_end(computation: Computation, dataflow: Dataflow) -> list[ShapeIndex]:
    """Return the leaves of the root that must have their value when `computation` is done."""
    caller = dataflow.caller(computation)
    found = [index for index, _ in nonempty_leaves(computation.root.shape)]
    if caller is None or caller.is_a("conditional"):
        return found
    if caller.is_a("while"):
        if computation is caller.called[0]:
            return found
        return [index for index in found if index not in dataflow.invariant(caller)]
    return []
