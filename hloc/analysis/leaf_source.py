"""The instruction of the same computation that defines a leaf, looking through tuples.

Unlike `hloc/analysis/dataflow.py` this works on any module and follows no calls, so passes that
rewrite loops and branches can use it at any time.
"""

from __future__ import annotations

from dataclasses import field

from hloc.analysis.dataflow import Position
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.shapes import ShapeIndex


def leaf_source(inst: Instruction, index: ShapeIndex = ()) -> Position:
    """Return the position that defines part `index`, looking through tuples.

    For `get-tuple-element(tuple(x, y)), index=1` that is `(y, ())`; for
    `get-tuple-element(parameter), index=2` it is `(parameter, (2,))`.
    """
    while True:
        name = inst.opcode.name
        if name == "get-tuple-element":
            index = (inst.attributes.index, *index)
            inst = inst.operands[0]
        elif name == "tuple" and index:
            inst, index = inst.operands[index[0]], index[1:]
        else:
            return inst, index


@dataclass(frozen=True, slots=True)
class SourceWalk:
    """Collects what some positions of one computation need, leaf by leaf.

    An element of a tuple that no instruction reads is not needed, except in a walk over operands.

    Attributes:
        stops: positions at which the walk ends.
        order: the instructions needed, operands first; parameters, and `tuple` and
            `get-tuple-element` that only forward leaves, are left out.
        reads: the parts of parameters needed, in the order they were found.
    """

    stops: frozenset[Position] = frozenset()
    order: list[Instruction] = field(default_factory=list)
    reads: list[Position] = field(default_factory=list)
    _entered: set[Instruction] = field(default_factory=set)
    _read: set[Position] = field(default_factory=set)

    def add(self, inst: Instruction, index: ShapeIndex = ()) -> None:
        """Collect what part `index` of `inst` needs."""
        stack: list[tuple[Instruction, bool]] = []
        self._push(inst, index, stack)
        while stack:
            source, done = stack.pop()
            if done:
                self.order.append(source)
            elif source not in self._entered:
                self._entered.add(source)
                stack.append((source, True))
                for operand in reversed((*source.control_predecessors, *source.operands)):
                    self._push(operand, (), stack)

    def _push(
        self, inst: Instruction, index: ShapeIndex, stack: list[tuple[Instruction, bool]]
    ) -> None:
        source, index = leaf_source(inst, index)
        if source.is_a("parameter"):
            if (source, index) not in self._read:
                self._read.add((source, index))
                self.reads.append((source, index))
        elif source not in self._entered and (source, index) not in self.stops:
            stack.append((source, False))
