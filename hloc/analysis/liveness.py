"""Liveness: which leaves of results can reach the module's result or a side effect.

It follows tuples, loops, branches and calls leaf by leaf, so it finds elements of a loop's state
that only feed themselves, and parts of an argument that a branch never reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from hloc.analysis.call_graph import effectful_computations, has_side_effect
from hloc.analysis.dataflow import Position
from hloc.analysis.divergence import fixed_collectives
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import live_computations
from hloc.lazy_dataclass import dataclass
from hloc.shapes import ArrayShape, ShapeIndex, leaves


@dataclass(frozen=True, slots=True)
class Liveness:
    """The answers for the instructions that the module had when it was analysed."""

    _live: dict[Position, None] = field(default_factory=dict)

    def is_live(self, inst: Instruction, index: ShapeIndex) -> bool:
        """True if leaf `index` of `inst` may be needed."""
        return (inst, index) in self._live


def analyse_liveness(module: Module) -> Liveness:
    """Return the liveness of `module`. Cost: O(leaves of all operands)."""
    marker = _Marker({})
    effectful, fixed = effectful_computations(module), fixed_collectives(module)
    marker.mark_all([module.entry.root])
    for computation in live_computations(module):
        for inst in computation.instructions:
            if has_side_effect(inst, effectful) or inst in fixed:
                marker.mark_effect(inst)
        for inst in computation.controlled:
            marker.mark_all(inst.control_predecessors)
    marker.run()
    return Liveness(marker.live)


@dataclass(frozen=True, slots=True)
class _Marker:
    live: dict[Position, None]
    waiting: list[Position] = field(default_factory=list)

    def mark(self, inst: Instruction, index: ShapeIndex) -> None:
        at = (inst, index)
        if at not in self.live:
            self.live[at] = None
            self.waiting.append(at)

    def mark_all(self, insts: Iterable[Instruction]) -> None:
        for inst in insts:
            if isinstance(inst.shape, ArrayShape):
                self.mark(inst, ())
            else:
                for index, _ in leaves(inst.shape):
                    self.mark(inst, index)

    def mark_inputs(self, inst: Instruction) -> None:
        """Mark the operands, and the results of the computations that `inst` calls."""
        self.mark_all(inst.operands)
        self.mark_all([called.root for called in inst.called])

    def mark_effect(self, inst: Instruction) -> None:
        """Mark what determines whether the effect happens, and with which values."""
        name = inst.opcode.name
        if name == "while":
            self.mark(inst.called[0].root, ())
        elif name == "conditional":
            self.mark(inst.operands[0], ())
        elif name != "call":
            self.mark_inputs(inst)

    def run(self) -> None:
        while self.waiting:
            self._step(*self.waiting.pop())

    def _step(self, inst: Instruction, index: ShapeIndex) -> None:
        """Mark what leaf `index` of `inst` is computed from.

        Of a loop, the leaf's initial value and its value after an iteration, and all that the
        condition reads; of a conditional, the leaf in every branch, and the selector.
        """
        name = inst.opcode.name
        if name == "tuple":
            self.mark(inst.operands[index[0]], index[1:])
        elif name == "get-tuple-element":
            self.mark(inst.operands[0], (inst.attributes.index, *index))
        elif name == "parameter":
            self._argument(inst, index, inst.computation.callers)
        elif name == "while":
            self.mark(inst.operands[0], index)
            self.mark(inst.called[1].root, index)
            self.mark(inst.called[0].root, ())
        elif name == "conditional":
            self.mark(inst.operands[0], ())
            for branch in inst.called:
                self.mark(branch.root, index)
        elif name == "call":
            self.mark(inst.called[0].root, index)
        else:
            self.mark_inputs(inst)

    def _argument(
        self, parameter: Instruction, index: ShapeIndex, callers: Iterable[Instruction]
    ) -> None:
        for caller in callers:
            name = caller.opcode.name
            if name == "while":
                self.mark(caller.operands[0], index)
                self.mark(caller.called[1].root, index)
            elif name == "conditional":
                for operand, branch in zip(caller.operands[1:], caller.called, strict=True):
                    if branch is parameter.computation:
                        self.mark(operand, index)
            elif name == "call":
                self.mark(caller.operands[parameter.attributes.number], index)
            else:
                self.mark_all(caller.operands)
