"""Arrays without elements need no computing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hloc.analysis.call_graph import effectful_computations, has_side_effect
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.opcode import opcode_row
from hloc.ir.traversal import live_computations
from hloc.literal import Literal
from hloc.opt.pass_base import PassContext
from hloc.shapes import ArrayShape


@dataclass(frozen=True)
class ZeroSizedElimination:
    """Replace instructions whose result has no elements by an empty constant of that shape.

    Side effects and control dependencies are kept. Cost: one walk, O(instructions).
    """

    name: ClassVar[str] = "zero-sized-elimination"

    def run(self, module: Module, context: PassContext) -> bool:
        """Replace in every computation that is called."""
        effectful = effectful_computations(module)
        row = opcode_row("constant")
        assert row.attributes is not None
        before = context.rewrites
        for computation in live_computations(module):
            for inst in computation.instructions:
                if context.spent:
                    break
                if not _is_empty(inst) or has_side_effect(inst, effectful):
                    continue
                context.at = inst
                shape = inst.array
                literal = Literal(shape.with_layout(None), np.zeros(shape.dims, shape.dtype.numpy))
                with context.rewriting(module, self.name):
                    empty = computation.add(row, shape, attributes=row.attributes(literal=literal))
                    computation.replace(inst, empty)
        return context.rewrites > before


def _is_empty(inst: Instruction) -> bool:
    shape = inst.shape
    return (
        isinstance(shape, ArrayShape)
        and not shape.dtype.is_special
        and not shape.dynamic
        and shape.elements == 0
        and inst.opcode.name not in ("parameter", "constant")
        and not inst.control_predecessors
        and (bool(inst.users) or inst.is_root)
    )
