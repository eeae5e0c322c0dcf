"""Bytes that the collectives of a per-device module send, per device and run, on rings.

With n members: all-reduce 2(n-1)/n of the operand, all-gather (n-1)/n of the result,
reduce-scatter, all-to-all and broadcasts (n-1)/n of the operand, collective-permute the operand for
each device that sends to another. A loop counts as often as it runs where that is known, else once;
of a conditional the branch that sends most. Nothing is said of the time that it takes.
"""

from __future__ import annotations

import hloc
from hloc.analysis.trip_count import trip_count
from hloc.ir.computation import Computation
from hloc.ir.device_groups import device_groups, device_pairs, module_devices
from hloc.ir.instruction import Instruction

_OF_OPERANDS = ("reduce-scatter", "all-to-all", "ragged-all-to-all", "collective-broadcast")


def module_sent_bytes(text: str) -> float:
    """Return what one device sends in one run, the mean over the devices.

    Raises:
        HloError: the text is not a module.
    """
    module = hloc.parse(text)
    known: dict[Computation, float] = {}
    for computation in module.computations:  # called ones first
        known[computation] = sum(_sent(inst, known) for inst in computation.instructions)
    return known[module.entry]


def _sent(inst: Instruction, known: dict[Computation, float]) -> float:
    kind = inst.opcode.name.removesuffix("-start")
    if kind == "while":
        count = trip_count(inst)
        condition, body = (known[c] for c in inst.called)
        turns = 1 if count is None else count.count
        return turns * body + (turns + 1) * condition
    if kind == "conditional":
        return max(known[c] for c in inst.called)
    if kind == "collective-permute":
        senders = sum(source != target for source, target in device_pairs(inst))
        return inst.operands[0].shape.size_bytes * senders / _devices(inst)
    if kind in ("all-reduce", "all-gather", *_OF_OPERANDS):
        operands = inst.operands[:1] if kind == "ragged-all-to-all" else inst.operands
        own = sum(operand.shape.size_bytes for operand in operands)
        return sum(len(g) * _share(kind, own, len(g)) for g in device_groups(inst)) / _devices(inst)
    return sum(known[c] for c in inst.called) if kind in ("call", "async") else 0.0


def _share(kind: str, operand_bytes: int, members: int) -> float:
    """Return what each member of a group sends."""
    if kind == "all-gather":
        return operand_bytes * (members - 1)
    return operand_bytes * (members - 1) / members * (2 if kind == "all-reduce" else 1)


def _devices(inst: Instruction) -> int:
    return module_devices(inst.computation.module).total
