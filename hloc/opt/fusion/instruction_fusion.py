"""Fusion: instructions that one kernel computes without storing intermediate values.

Users are visited before producers, so the groups of all users are known when a producer either
joins them or starts its own. One pass, no search.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloc.analysis.call_graph import control_flow_computations
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import post_order
from hloc.lazy_dataclass import dataclass
from hloc.opt.fusion.cost_model import Limits, may_be_output, why_not_join
from hloc.opt.fusion.dynamic_slice_fusion_rewriter import dots_in_place
from hloc.opt.fusion.fusible import Role, is_one_step, role_of
from hloc.opt.fusion.group import Group, Maps
from hloc.opt.fusion.outline_fusion import outline_fusion
from hloc.opt.pass_base import PassContext, RewritingPass

_NEVER_INSIDE = (Role.REDUCE, Role.SCAN, Role.UPDATE)


@dataclass(frozen=True)
class InstructionFusion(RewritingPass):
    """Fuse elementwise and data-movement instructions, with a reduce or an update as root.

    A producer read by several groups joins all of them if it is cheap, else none. A fusion has
    several outputs where results of the computation depend on one another. Expects a module
    without dead code. Leaves `fusion` instructions of kind kLoop, or kInput with a reduce as root.
    Cost: O(instructions), as each producer is weighed once.
    """

    name = "fusion"
    max_operands: int = 48
    max_instructions: int = 512

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Fuse in the entry and in the bodies of loops, branches and calls."""
        limits = Limits(self.max_operands, self.max_instructions)
        for computation in control_flow_computations(module):
            if is_one_step(computation):
                continue
            for group in fusion_groups(computation, limits, context):
                if context.spent:
                    return
                context.at = group.root
                if context.remarks is not None:
                    context.remark("passed", self.name, group.root, _gain_text(group))
                with context.rewriting(module, self.name):
                    _outline(computation, group)


def fusion_groups(computation: Computation, limits: Limits, context: PassContext) -> list[Group]:
    """Return the groups of more than one instruction, users' groups before producers'.

    Nothing is changed; `context` gets the remarks.
    """
    order = post_order(computation)
    pinned = computation.awaited
    of: dict[Instruction, tuple[Group, ...]] = {}
    found: list[Group] = []
    views: set[Instruction] = set()
    for inst in reversed(order):
        role = Role.NONE if inst in pinned else role_of(inst)
        if role is Role.NONE or dots_in_place(inst, pinned):
            continue
        if role is Role.VIEW:
            views.add(inst)
        joined = _join(inst, role, of, limits, context)
        if not joined and role is not Role.VIEW:
            group = Group.of(inst)
            found.append(group)
            joined = (group,)
        of[inst] = joined
    for group in found:
        _let_go_of_views(group, views)
    return [group for group in found if _is_worth_it(group)]


def _join(
    inst: Instruction,
    role: Role,
    of: dict[Instruction, tuple[Group, ...]],
    limits: Limits,
    context: PassContext,
) -> tuple[Group, ...]:
    """Fuse `inst` into the groups of its users; return its groups.

    A constant joins wherever it can, even if others read it too. A result of
    the computation may become another output of the single group that reads it; no cycle can arise,
    since nothing depends on the result. Any other instruction joins all its users or none.
    """
    if role in _NEVER_INSIDE or not inst.users:
        return ()
    is_constant = inst.opcode.name == "constant"
    result = inst.computation.root
    outside = [user for user in inst.users if not of.get(user)]
    is_output = outside == [result] and result.opcode.name == "tuple"
    if inst is result or (outside and not (is_constant or is_output)):
        if role is Role.LOOP and context.remarks is not None:
            text = _kept_apart_by(outside)
            if text:
                context.remark("missed", InstructionFusion.name, inst, text)
        return ()
    reads: dict[Group, Maps] = {}
    for user in inst.users:
        for group in of.get(user, ()):
            maps = group.reads(user, inst)
            reads[group] = reads[group] | maps if group in reads else maps
    if not reads:
        return ()
    refusal = why_not_join(inst, reads, limits)
    if refusal is not None:
        if context.remarks is not None:
            context.remark("missed", InstructionFusion.name, inst, str(refusal))
        return ()
    if is_output and not is_constant:
        (group, maps), *others = reads.items()
        if others or not may_be_output(inst, group, maps):
            return ()
        group.outputs.append(inst)
    for group, maps in reads.items():
        group.join(inst, maps)
    return tuple(reads)


def _kept_apart_by(users: Sequence[Instruction]) -> str:
    """Return which of `users`, or of the readers of their tuples and views, is a separate kernel.

    Returns "" if only results of the computation read it.
    """
    waiting = list(users)
    for reader in waiting:
        name = reader.opcode.name
        if name == "opt-barrier":
            return f"nothing moves across the opt-barrier {reader.name} that reads it"
        if name == "tuple" or role_of(reader) is Role.VIEW:
            waiting += reader.users
        elif role_of(reader) is Role.NONE and not reader.opcode.control_flow:
            return f"{reader.name} reads it, and this {name} is not fused with what it reads"
    return ""


def _let_go_of_views(group: Group, views: set[Instruction]) -> None:
    """Remove reshapes at the boundary: outside they are free, inside they cost divisions."""
    waiting = [member for member in group.maps if member in views and member is not group.root]
    for member in reversed(waiting):
        if not any(operand in group.maps for operand in member.operands):
            group.leave(member)


def _gain_text(group: Group) -> str:
    inside = [m for m in group.maps if m not in group.outputs and m.opcode.name != "constant"]
    saved = sum(2 * member.shape.size_bytes for member in inside)
    return f"{len(group.maps)} instructions in one, saves {saved} bytes"


def _is_worth_it(group: Group) -> bool:
    return len(group.maps) > 1


def _outline(computation: Computation, group: Group) -> None:
    outline_fusion(computation, _operands_first(group), group.outputs, group.root)


def _operands_first(group: Group) -> list[Instruction]:
    """Return the members with operands before users."""
    return list(reversed(group.maps))
