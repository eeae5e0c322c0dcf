"""Structural changes that are tedious to write by hand: fusing, hoisting out of a loop."""

from __future__ import annotations

from collections.abc import Sequence

from hloc.analysis.leaf_source import leaf_source
from hloc.analysis.loop_state import loop_state
from hloc.errors import HloError
from hloc.ir.clone import outline
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import opcode_row
from hloc.opt.control_flow.leafwise import Copier, part_of
from hloc.opt.control_flow.loop_plan import Effects
from hloc.opt.control_flow.rewrite_loop import NewState, rewrite_loop
from hloc.opt.fusion.outline_fusion import remove_dead


def add_like(inst: Instruction, operands: Sequence[Instruction]) -> Instruction:
    """Add a copy of `inst`, with other operands, to its computation."""
    return inst.computation.add(
        inst.opcode, inst.shape, operands, inst.attributes, inst.called, common=inst.common
    )


def fuse(members: Sequence[Instruction]) -> Instruction:
    """Fuse `members` and return the fusion; members with users outside it also stay.

    Args:
        members: operands before users, all of one computation; the last is the root of the fusion.

    Raises:
        HloError: fewer than two members, or a member that the last one does not depend on.
    """
    if len(members) < 2:
        raise HloError("a fusion has two members or more")
    inside = set(members)
    for member in members[:-1]:
        if not any(user in inside for user in member.users):
            raise HloError(f"{member.name} is not read by another member of the fusion")
    root = members[-1]
    computation = root.computation
    body, operands = outline(computation, members, [root], name="fused_computation")
    row = opcode_row("fusion")
    assert row.attributes is not None
    attributes = row.attributes(kind="kLoop")
    fusion = computation.add(row, root.shape, operands, attributes, (body,))
    computation.replace(root, fusion)
    remove_dead(members)
    return fusion


def hoist(loop: Instruction, values: Sequence[Instruction]) -> Instruction:
    """Hoist `values`, instructions of the body of a `while`, out of the loop.

    Their operands are hoisted too; the new loop, which is returned, carries each value in its
    state. The caller guarantees that the values are loop-invariant.

    Raises:
        HloError: the state of the loop is more than a tuple of arrays.
    """
    state = loop_state(loop)
    if state is None:
        raise HloError(f"the state of {loop.name} is not understood")
    places = [leaf_source(value) for value in values]
    copier = Copier(loop.computation, lambda index: part_of(loop.operands[0], index))
    copier.copy(places)
    every = tuple(range(len(state)))
    hoisted = {at: copier.part(*at) for at in places}
    new_loop = rewrite_loop(state, NewState(every, every, hoisted=hoisted), Effects())
    assert new_loop is not None
    return new_loop
