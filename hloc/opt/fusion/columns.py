"""Reductions that share their loops, with elementwise epilogues."""

from __future__ import annotations

from collections.abc import Sequence

from hloc.analysis.rows import FULL, OTHER, Access, Rows, passed_on
from hloc.ir.instruction import Instruction
from hloc.ir.traversal import post_order
from hloc.shapes import ArrayShape

_INSIDE: Access = OTHER


def reduces_of(inst: Instruction) -> tuple[Instruction, ...]:
    """Return the reductions whose loops the kernel of `inst` has, () if there are none."""
    root = inst.called[0].root if inst.opcode.name == "fusion" else inst
    if root.opcode.name == "reduce":
        return (root,)
    if inst.opcode.name != "fusion":
        return ()
    outputs = root.operands if root.opcode.name == "tuple" else (root,)
    if not outputs or not all(isinstance(output.shape, ArrayShape) for output in outputs):
        return ()
    if not any(member.opcode.name == "reduce" for member in inst.called[0].instructions):
        return ()
    order = [member for member in post_order(inst.called[0]) if member.opcode.name != "tuple"]
    return shared_reduces(order, outputs)


def shared_reduces(
    order: Sequence[Instruction], outputs: Sequence[Instruction]
) -> tuple[Instruction, ...]:
    """Return the reductions of a fusion if their loops are the same, nothing otherwise.

    Results are the reductions themselves, or elementwise in them, as a mean in
    a sum.

    Args:
        order: the members, operands first.
        outputs: members that are results.
    """
    reduces = tuple(inst for inst in order if inst.opcode.name == "reduce")
    if not reduces or not all(_like(inst, reduces[0]) for inst in reduces):
        return ()
    dims = reduces[0].array.dims
    if any(o.array.dims != dims or o.array.layout is not None for o in outputs):
        return ()
    rows = Rows(reduces[0].array.elements, 1)
    found: dict[Instruction, Access] = dict.fromkeys(outputs, FULL)
    for inst in reversed(order):
        own = found.get(inst, 0)
        if inst.opcode.name == "reduce" and own != FULL:
            return ()
        for place, operand in enumerate(inst.operands):
            is_map = own == FULL and inst.opcode.name != "reduce"
            access = passed_on(inst, place, FULL, rows) if is_map else _INSIDE
            found[operand] = found.get(operand, 0) | access
    return reduces


def _like(inst: Instruction, first: Instruction) -> bool:
    """True for two reductions of one array each, of the same dimensions and layout."""
    if not isinstance(inst.shape, ArrayShape) or not isinstance(first.shape, ArrayShape):
        return False
    a, b = inst.operands[0].array, first.operands[0].array
    return (
        a.dims == b.dims
        and a.minor_to_major == b.minor_to_major
        and inst.attributes.dimensions == first.attributes.dimensions
    )
