"""Finds the instructions in manual regions, which are already per-device.

A region is between the custom calls that divide whole arrays into parts and those that join
them; regions may be nested.
"""

from __future__ import annotations

from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import post_order
from hloc.opt.spmd.annotations import TO_GLOBAL, TO_LOCAL, target_of
from hloc.opt.spmd.array_classes import control_flow_instructions


def manual_instructions(module: Module) -> set[Instruction]:
    """Return the instructions of manual regions, including computations that regions call."""
    order = list(control_flow_instructions(module))
    depths = _depths(order)
    found = {inst for inst, depth in depths.items() if depth}
    for inst in reversed(order):  # constants and the like used only in regions
        if inst.users and not inst.is_a("parameter") and inst.common.sharding is None:
            inside = all(user in found and target_of(user) not in TO_LOCAL for user in inst.users)
            if inside and target_of(inst) not in TO_GLOBAL:
                found.add(inst)
    return found


def _depths(order: list[Instruction]) -> dict[Instruction, int]:
    """Return the number of regions around each instruction."""
    computations = dict.fromkeys(inst.computation for inst in order)  # callees first
    outside = dict.fromkeys(computations, 0)
    found: dict[Instruction, int] = {}
    for computation in reversed(list(computations)):
        for inst in post_order(computation):
            depth = max((found[operand] for operand in inst.operands), default=0)
            depth = max(depth, outside[computation])
            if target_of(inst) in TO_LOCAL:
                depth += 1
            elif target_of(inst) in TO_GLOBAL:
                depth -= 1
            found[inst] = depth
            for called in inst.called:
                if called in outside:
                    outside[called] = max(outside[called], depth)
    return found
