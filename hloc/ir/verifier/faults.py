"""Diagnostics of the verifier on an instruction, with its place and those of its operands."""

from __future__ import annotations

from hloc.errors import Diagnostic
from hloc.ir.instruction import Instruction
from hloc.ir.origin import origin_of
from hloc.shapes import Shape, ShapeIndex, shape_at

_MOST_OPERANDS = 4


def fault(code: str, message: str, inst: Instruction, *notes: str) -> Diagnostic:
    """Return the diagnostic for a fault of `inst`: `add 'x' message`, and its origin."""
    origin = origin_of(inst)
    if origin:
        notes = (*notes, f"made at {origin}")
    return Diagnostic(f"{inst.opcode.name} '{inst.name}' {message}", inst.span, notes, code)


def operand_notes(inst: Instruction) -> list[str]:
    """Return a note per operand (of the first four): shape, name, where it is defined."""
    notes = []
    for number, operand in enumerate(inst.operands[:_MOST_OPERANDS]):
        place = f", defined at {operand.span.place()}" if operand.span else ""
        notes.append(
            f"operand {number} is {operand.shape.text_without_layout} '{operand.name}'{place}"
        )
    return notes


def part_at(shape: Shape, index: ShapeIndex) -> Shape | None:
    """Return the part of `shape` at `index`, None if it has no such part."""
    try:
        return shape_at(shape, index)
    except IndexError:
        return None


def braced(index: ShapeIndex) -> str:
    """Return `{0,1}`."""
    return "{" + ",".join(map(str, index)) + "}"
