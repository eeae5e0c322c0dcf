"""Which operands a call writes its results into: `output_to_operand_aliasing={{0}: (1, {})}`."""

from __future__ import annotations

import re

from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass

_ALIAS = re.compile(r"\{([\d, ]*)\}:\s*\((-?\d+),\s*\{([\d, ]*)\}")


@dataclass(frozen=True, slots=True)
class OperandAlias:
    """A part of a result that lies in the memory of a part of an operand.

    Attributes:
        output: index of the part of the result, () for all of it.
        operand: number of the operand; the text may name one that is not there.
        index: index of the part of the operand.
    """

    output: tuple[int, ...]
    operand: int
    index: tuple[int, ...]


def operand_aliases(inst: Instruction) -> tuple[OperandAlias, ...]:
    """Return what `output_to_operand_aliasing` of `inst` says, () if it has none."""
    aliasing = getattr(inst.attributes, "output_to_operand_aliasing", None)
    if aliasing is None:
        return ()
    return tuple(
        OperandAlias(_index(output), int(operand), _index(index))
        for output, operand, index in _ALIAS.findall(str(aliasing))
    )


def _index(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.replace(",", " ").split())
