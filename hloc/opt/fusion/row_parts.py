"""The instructions of a row region that one GPU kernel computes, and those it writes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from hloc.analysis.cost import elements_of
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.opt.fusion.fusible import Role, role_of
from hloc.opt.fusion.region import Region
from hloc.shapes import ArrayShape


@dataclass(frozen=True, slots=True)
class RowParts:
    """The parts of the kernel of a region.

    Attributes:
        members: operands first.
        results: members that it writes: those needed in memory, and those with one value per row.
        copied: members that other kernels read, and can recompute.
    """

    members: tuple[Instruction, ...]
    results: tuple[Instruction, ...]
    copied: tuple[Instruction, ...]


def row_parts(
    region: Region, positions: Mapping[Instruction, int], in_memory: Collection[Instruction]
) -> RowParts | None:
    """Return the parts of a region, None if rows gain nothing.

    Args:
        region: of instructions that are not fused.
        positions: positions of live instructions in an order with operands first.
        in_memory: instructions read by users that are never fused.
    """
    assert region.rows is not None
    made = {m for kernel in region.kernels for m in (kernel.inst, *kernel.values)}
    inner: dict[Instruction, None] = {}
    live = (member for member in made if member in positions)
    for member in sorted(live, key=positions.__getitem__, reverse=True):
        is_written = member in in_memory and role_of(member) is not Role.VIEW
        if member.is_a("reduce") or is_written or any(user in inner for user in member.users):
            inner[member] = None
    results: list[Instruction] = []
    copied: dict[Instruction, None] = {}
    for member in inner:  # users first: operands of a copy must be in memory, or copied too
        if not isinstance(member.shape, ArrayShape):
            continue
        is_view = role_of(member) is Role.VIEW
        if member in in_memory and not is_view:
            results.append(member)
        elif any(user not in inner or user in copied for user in member.users):
            if not is_view and elements_of(member.shape) == region.rows.count:
                results.append(member)
            else:
                copied[member] = None
    members = tuple(reversed(inner))
    reduces = sum(member.is_a("reduce") for member in members)
    is_whole = any(elements_of(result.shape) == region.rows.elements for result in results)
    if not results or (reduces < 2 and not is_whole):
        return None
    return RowParts(members, tuple(reversed(results)), tuple(reversed(copied)))


def needed_in_memory(
    order: Sequence[Instruction], pinned: Collection[Instruction]
) -> set[Instruction]:
    """Return the instructions that users which are never fused read, directly or as a view."""
    found = {inst for inst in order if inst.is_root}
    for user in reversed(order):
        role = Role.NONE if user in pinned else role_of(user)
        if role is Role.NONE or (role is Role.VIEW and user in found):
            found.update(user.operands)
    return found
