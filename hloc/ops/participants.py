"""The number of devices that an instruction needs: participants of a collective, range of an id.

`hloc/ir/device_groups.py` determines which.
"""

from __future__ import annotations

from hloc.ir.device_groups import PERMUTES, GroupMode, group_mode, header_devices, module_devices
from hloc.ir.instruction import Instruction
from hloc.shapes import ArrayShape, leaves

ADVICE = "only one runs it here: the target cpu runs all of them (--devices, run_devices)"
"""Advice in a message."""


def devices_reason(inst: Instruction, *, can_exchange: bool = False) -> str:
    """Return why one device cannot run `inst`, "" if no other takes part in it.

    With `can_exchange` it runs on all devices of its module, of which there must be enough.
    """
    name, config = inst.opcode.name, inst.computation.module.config
    devices = module_devices(inst.computation.module).total
    if can_exchange and (inst.opcode.exchange is None or participants(inst) <= devices):
        return ""
    if inst.opcode.exchange is not None:
        count = participants(inst)
        return f"it exchanges data between {count} devices; {ADVICE}" if count != 1 else ""
    if name == "partition-id" and config.num_partitions > 1:
        return f"it tells {config.num_partitions} partitions apart; {ADVICE}"
    if name == "replica-id" and config.replica_count > 1:
        return f"it tells {config.replica_count} replicas apart; {ADVICE}"
    return ""


def participants(inst: Instruction) -> int:
    """Return how many devices take part in a collective: the largest group that is written.

    `{}` is one group of all replicas, or of all partitions, or of both; shapes and pairs
    may imply more participants than the module's header, which is then wrong.
    """
    attributes, mode = inst.attributes, group_mode(inst)
    counts = header_devices(inst.computation.module)
    numbered = counts.numbered(mode)
    if inst.is_a(*PERMUTES):
        ids: list[int] = [i for pair in attributes.source_target_pairs for i in pair]
        return max([numbered, *(i + 1 for i in ids)])
    count: int = max(attributes.replica_groups.sizes, default=numbered)
    if mode is GroupMode.BOTH:
        count *= counts.partitions
    return max(count, _participants_of_shapes(inst))


def _participants_of_shapes(inst: Instruction) -> int:
    """Return how many devices the shapes imply: `f32[8] all-gather(f32[2])` has four."""
    if inst.is_a("all-to-all") and inst.attributes.dimensions is None:
        return len(inst.operands)
    if not inst.is_a("all-gather", "all-gather-start", "reduce-scatter"):
        return 1
    result = [shape for _, shape in leaves(inst.shape)][-1]
    operand = inst.operands[-1].array
    assert isinstance(result, ArrayShape)
    (dim,) = inst.attributes.dimensions
    small, large = sorted((operand.dims[dim], result.dims[dim]))
    return large // small if small > 0 else 1
