"""Which instructions and computations are equal but for their operands and names."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.traversal import post_order


def without_channel(inst: Instruction) -> Any:
    """Return the attributes, without the number of a collective's channel."""
    attributes = inst.attributes
    if inst.opcode.exchange is None or not attributes.channel_id:
        return attributes
    return replace(attributes, channel_id=1)


def inputs(inst: Instruction) -> Hashable:
    """Return opcode and operands, which tell most instructions of a computation apart."""
    opcode, operands = inst.opcode, inst.operands
    if opcode.commutative and operands[0].uid > operands[-1].uid:
        operands = operands[::-1]
    return opcode.name, operands


class Structures:
    """Keys that are equal for instructions of equal value, if their operands are merged."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._of: dict[tuple[Computation, int], int] = {}

    def key(self, inst: Instruction) -> Hashable:
        return self._key(inst, inputs(inst))

    def kind(self, inst: Instruction) -> Hashable:
        """Return what is left of the key without the operands."""
        return self._key(inst, (inst.opcode.name,))

    def _key(self, inst: Instruction, inputs: Hashable) -> Hashable:
        return (
            inputs,
            inst.shape,
            without_channel(inst),
            tuple([self.structure(called) for called in inst.called]) if inst.called else (),
            inst.common.result_accuracy,
            inst.common.backend_config,
        )

    def structure(self, computation: Computation) -> int:
        """Return a number that is equal exactly for structurally equal computations."""
        found = self._of.get((computation, computation.version))
        if found is None:
            places: dict[Instruction, int] = {}
            rows: list[Hashable] = []
            for inst in post_order(computation):
                places[inst] = len(rows)
                operands = [places[operand] for operand in inst.operands]
                if inst.opcode.commutative:
                    operands.sort()
                rows.append(self._key(inst, (inst.opcode.name, *operands)))
            text = (places[computation.root], tuple(rows))
            found = self._numbers.setdefault(text, len(self._numbers))
            self._of[computation, computation.version] = found
        return found
