"""Elements of tuples as `p#1#0`, without get-tuple-element instructions (docs/text-versions.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hloc.ir.instruction import Instruction

if TYPE_CHECKING:
    from hloc.ir.module import Module


class CompactElements:
    """Which get-tuple-element instructions of a module are written as part of their users.

    XLA writes all of them so, and loses their other attributes; hloc keeps the line of
    those with a sharding, frontend attributes, statistics, a backend config or control edges.
    Names, metadata and origins are lost as in XLA.
    """

    def __init__(self, module: Module) -> None:
        # Instructions named in the control-predecessors of another.
        self._awaited = {
            awaited
            for computation in module.computations
            for inst in computation.instructions
            for awaited in inst.control_predecessors
        }

    def __contains__(self, inst: Instruction) -> bool:
        if inst.opcode.name != "get-tuple-element":
            return False
        common = inst.common
        says_more = (
            inst.control_predecessors or inst in self._awaited or common.sharding
            or common.frontend_attributes or common.statistics or common.backend_config
        )  # fmt: skip
        return not says_more

    def split(self, operand: Instruction) -> tuple[Instruction, str]:
        """Return the instruction to name instead of `operand`, and `#1#0` or ""."""
        path = ""
        while operand in self:
            path = f"#{operand.attributes.index}{path}"
            operand = operand.operands[0]
        return operand, path
