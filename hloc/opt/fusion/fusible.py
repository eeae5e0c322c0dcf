"""Roles of instructions in fusions, and the weight of their arithmetic."""

from __future__ import annotations

from enum import Enum
from itertools import islice

from hloc.analysis.cumulative import plain_scan
from hloc.analysis.dataflow import forwards
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ops.folding import works_per_element
from hloc.shapes import ArrayShape


class Role(Enum):
    """The role of an instruction in fusions."""

    NONE = "never part of a fusion"
    VIEW = "free on its own, since no bytes move; part of a fusion only between other parts"
    LOOP = "one element at a time; root or inside"
    REDUCE = "root that reads many elements for each result; never inside"
    SCAN = "root that goes once through an operand of the same size; never inside"
    UPDATE = "root that changes a buffer in place; never inside"


EXPENSIVE = 10
"""An element of at least this weight is never recomputed."""


def is_one_step(computation: Computation) -> bool:
    """True if there is only one instruction besides parameters, and so nothing to fuse."""
    steps = (inst for inst in computation.instructions if inst.opcode.name != "parameter")
    return len(list(islice(steps, 2))) < 2


def role_of(inst: Instruction) -> Role:
    """Return how `inst` may take part in fusions."""
    opcode, shape = inst.opcode, inst.shape
    name = opcode.name
    if name == "get-tuple-element" or opcode.side_effect or inst.control_predecessors:
        return Role.NONE
    if not shape.is_static_data:
        return Role.NONE
    for operand in inst.operands:
        if operand.shape is not shape and not operand.shape.is_static_data:
            return Role.NONE
    is_array = isinstance(shape, ArrayShape)
    if opcode.elementwise:
        return Role.LOOP if is_array and _has_one_size(inst) else Role.NONE
    if opcode.data_movement:
        if forwards(inst):
            return Role.VIEW if _same_elements(inst) else Role.NONE
        return Role.LOOP if is_array else Role.NONE
    if name == "constant":
        return Role.LOOP if is_array and inst.array.is_scalar else Role.NONE
    if name == "reduce":
        return Role.REDUCE
    if name == "reduce-window":
        return Role.SCAN if plain_scan(inst) is not None else Role.NONE
    if name in ("dynamic-update-slice", "scatter"):
        return Role.UPDATE if is_array else Role.NONE
    if is_array and (name == "iota" or (works_per_element(inst) and _has_one_size(inst))):
        return Role.LOOP  # the latter is a bitcast-convert that adds or removes no dimension
    return Role.NONE


def is_view(inst: Instruction) -> bool:
    """True if the role of `inst` is that of a view."""
    return inst.opcode.data_movement and role_of(inst) is Role.VIEW


def _has_one_size(inst: Instruction) -> bool:
    """True if all operands are scalars or have the dimensions of the result."""
    shape = inst.array
    for operand in inst.operands:
        if operand.shape is not shape and operand.array.dims not in ((), shape.dims):
            return False
    return True


def _same_elements(inst: Instruction) -> bool:
    """False for a bitcast that regroups bytes into other elements."""
    return inst.array.dtype is inst.operands[0].array.dtype


def weight_of(inst: Instruction) -> int:
    """Return the work for one element; moving an element to another index costs nothing."""
    shape = inst.shape
    if inst.opcode.name == "divide" and isinstance(shape, ArrayShape) and not shape.dtype.is_float:
        return EXPENSIVE  # an integer division is slow, and cannot be hoisted out of a loop
    return inst.opcode.weight


def producer_of(inst: Instruction) -> Instruction:
    """Return the producer of `inst`, looking through bitcasts, reshapes and copies."""
    while inst.is_a("bitcast", "reshape", "copy"):
        inst = inst.operands[0]
    return inst
