"""Operands that a call writes its results into: `output_to_operand_aliasing={{0}: (1, {})}`."""

from __future__ import annotations

import re

from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass

_ALIAS = re.compile(r"\{([\d, ]*)\}:\s*\((-?\d+),\s*\{([\d, ]*)\}")


@dataclass(frozen=True, slots=True)
class OperandAlias:
    """A part of a result that shares memory with a part of an operand.

    Attributes:
        output: index of the part of the result, () for all of it.
        operand: number of the operand, which may not exist.
        index: index of the part of the operand.
    """

    output: tuple[int, ...]
    operand: int
    index: tuple[int, ...]


def operand_aliases(inst: Instruction) -> tuple[OperandAlias, ...]:
    """Return the `output_to_operand_aliasing` of `inst`, () if it has none."""
    aliasing = getattr(inst.attributes, "output_to_operand_aliasing", None)
    if aliasing is None:
        return ()
    return tuple(
        OperandAlias(_index(output), int(operand), _index(index))
        for output, operand, index in _ALIAS.findall(str(aliasing))
    )


def _index(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.replace(",", " ").split())
