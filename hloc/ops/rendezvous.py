"""Checks that the instructions that devices have reached are one collective.

Branches of a conditional may have separate instructions for the same rendezvous; then operands,
dimensions and reducers must agree.
"""

from __future__ import annotations

from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction

_COMPARED = ("dimensions", "source_target_pairs", "slice_sizes")


def mismatch(one: Instruction, other: Instruction) -> str:
    """Return the difference between two instructions that should be one collective, or "".

    Both have the same opcode, up to `-start`, the same group and the same channel.
    """
    if one is other:
        return ""
    shapes, others = _shapes(one), _shapes(other)
    if shapes != others:
        return f"operands: {', '.join(shapes)} and {', '.join(others)}"
    for name in _COMPARED:
        own, its = getattr(one.attributes, name, None), getattr(other.attributes, name, None)
        if own != its:
            return f"{name}: {own} and {its}"
    if [_law(c) for c in one.called] != [_law(c) for c in other.called]:
        return f"reducers: '{one.called[0].name}' and '{other.called[0].name}'"
    return ""


def _shapes(inst: Instruction) -> list[str]:
    return [operand.shape.text_without_layout for operand in inst.operands]


def _law(computation: Computation) -> list[tuple[object, ...]]:
    """Return the computation without its names."""
    place = {inst: number for number, inst in enumerate(computation.instructions)}
    return [
        (inst.opcode.name, inst.shape, inst.attributes, *(place[o] for o in inst.operands))
        for inst in computation.instructions
    ]
