"""Fingerprints: equal numbers for instructions that are equal except for names and metadata.

One `Fingerprints` numbers all modules that are compared, so equality is exact: there
are no hash collisions.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import field, replace

import numpy as np

from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import post_order, reachable_computations
from hloc.lazy_dataclass import dataclass


@dataclass(eq=False, slots=True)
class Fingerprints:
    """Numbers of instructions and computations, by content.

    Attributes:
        layouts: whether layouts count.
        local: opcode, shape, attributes and called computations.
        exact: like `local`, with the exact number of every operand: a whole expression.
        computations: what root and side effects of a computation compute; equal ones are
            interchangeable.
    """

    layouts: bool = True
    local: dict[Instruction, int] = field(default_factory=dict)
    exact: dict[Instruction, int] = field(default_factory=dict)
    computations: dict[Computation, int] = field(default_factory=dict)
    _numbers: dict[Hashable, int] = field(default_factory=dict)

    def add(self, module: Module) -> None:
        """Number all of `module`."""
        for computation in reachable_computations(*module.computations):
            self._computation(computation)

    def number(self, key: Hashable) -> int:
        """Return the number of `key`, a new one for a new key."""
        return self._numbers.setdefault(key, len(self._numbers))

    def _computation(self, computation: Computation) -> None:
        ends: list[int] = []
        for inst in post_order(computation):
            called = tuple(self.computations[c] for c in inst.called)
            local = self.number(("local", self._content(inst), called))
            operands = tuple(self.exact[o] for o in inst.operands)
            before = tuple(self.exact[p] for p in inst.control_predecessors)
            self.local[inst] = local
            self.exact[inst] = self.number(("exact", local, operands, before))
            if not inst.users:
                ends.append(self.exact[inst])
        root = self.exact[computation.root]
        thread = computation.execution_thread
        self.computations[computation] = self.number(("ends", root, tuple(sorted(ends)), thread))

    def _content(self, inst: Instruction) -> Hashable:
        common = replace(inst.common, metadata=None, origin=None)
        if self.layouts:
            return inst.opcode.name, inst.shape, inst.attributes, common
        attributes: Hashable = inst.attributes
        if inst.opcode.parenthesis == "literal":
            value = inst.attributes.literal.value
            attributes = value.tobytes() if isinstance(value, np.ndarray) else value
        return inst.opcode.name, inst.shape.text_without_layout, attributes, common
