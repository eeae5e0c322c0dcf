"""Transfers between devices: recognises `send` and `recv`, and finds the start of a `-done`.

The pairs of devices are in the frontend attributes of the start (`hloc/ir/device_groups.py`); the
others are transfers to and from the host.
"""

from __future__ import annotations

from hloc.ir.device_groups import TRANSFERS, device_pairs
from hloc.ir.instruction import Instruction
from hloc.ir.traversal import all_instructions
from hloc.shapes import ArrayShape, TupleShape


def is_between_devices(inst: Instruction) -> bool:
    """True for `send`, `recv` and their dones, if the data goes from device to device."""
    if not inst.is_a(*TRANSFERS):
        return False
    start = start_of(inst)
    return start is not None and not start.attributes.is_host_transfer and bool(device_pairs(start))


def start_of(inst: Instruction) -> Instruction | None:
    """Return the start of `inst`, by channel if a loop is between them; itself for a start."""
    name = inst.opcode.name.removesuffix("-done")
    if inst.is_a(name):
        return inst
    if inst.operands[0].is_a(name):
        return inst.operands[0]
    for other in all_instructions(inst.computation.module):
        if other.is_a(name) and other.attributes.channel_id == inst.attributes.channel_id:
            return other
    return None


def transferred(inst: Instruction) -> ArrayShape:
    """Return the shape of the data of a `send`, a `recv` or a `recv-done`."""
    shape = inst.shape
    assert isinstance(shape, TupleShape)
    data = shape.elements[0]
    assert isinstance(data, ArrayShape)
    return data
