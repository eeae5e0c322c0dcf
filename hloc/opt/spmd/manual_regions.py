"""Which instructions are in manual regions: what they compute is per device already.

A region lies between the custom calls that cut whole arrays into parts and those that join them.
"""

from __future__ import annotations

from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.opt.spmd.annotations import TO_GLOBAL, TO_LOCAL, target_of
from hloc.opt.spmd.array_classes import walked


def manual_instructions(module: Module) -> set[Instruction]:
    """Return the instructions of manual regions, those of computations that regions call too."""
    order = list(walked(module))
    found: set[Instruction] = set()
    waiting = [inst for inst in order if target_of(inst) in TO_LOCAL]
    while waiting:
        inst = waiting.pop()
        if inst in found:
            continue
        found.add(inst)
        waiting += [user for user in inst.users if target_of(user) not in TO_GLOBAL]
        if inst.is_a("call", "while", "conditional"):
            waiting += [each for called in inst.called for each in called.instructions]
    for inst in reversed(order):  # constants and the like that only the region uses
        if inst.users and not inst.is_a("parameter") and _is_free(inst):
            inside = all(user in found and target_of(user) not in TO_LOCAL for user in inst.users)
            if inside and target_of(inst) not in TO_GLOBAL:
                found.add(inst)
    return found


def _is_free(inst: Instruction) -> bool:
    return inst.common.sharding is None and target_of(inst) not in TO_GLOBAL
