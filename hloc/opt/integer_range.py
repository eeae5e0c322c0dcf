"""Value ranges of integers, from a few instructions around them."""

from __future__ import annotations

from typing import TypeAlias

from hloc.ir.instruction import Instruction
from hloc.opt.values import is_integer, is_integer_or_pred, splat_value

Range: TypeAlias = tuple[int, int]
"""Lowest and highest value, both included."""

_DEPTH = 6


def integer_range(inst: Instruction) -> Range:
    """Return the range of the elements of `inst`, an array of integers or pred.

    Uses constants, iotas, converts, masks, remainders, bounds and data movement; otherwise it is
    the range of the type. Cost: at most 6 instructions deep, along one operand.
    """
    return _range(inst, _DEPTH)


def _of_type(inst: Instruction) -> Range:
    dtype = inst.array.dtype
    if dtype.is_signed:
        return -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1
    return 0, 2**dtype.bits - 1


def _range(inst: Instruction, depth: int) -> Range:
    """Return bounds of all elements of `inst`, both inclusive, from `depth` levels of operands."""
    low, high = whole = _of_type(inst)
    value = splat_value(inst)
    if value is not None:
        return int(value), int(value)
    name = inst.opcode.name
    if name == "iota":
        last = max(inst.array.dims[inst.attributes.iota_dimension] - 1, 0)
        return (0, last) if last <= high else whole
    if depth == 0 or not inst.operands:
        return whole
    if inst.opcode.data_movement and len(inst.operands) == 1 and name != "bitcast":
        return _range(inst.operands[0], depth - 1)
    if name == "convert" and is_integer_or_pred(inst.operands[0]):
        inner = _range(inst.operands[0], depth - 1)
        return inner if low <= inner[0] and inner[1] <= high else whole
    bound = splat_value(inst.operands[-1]) if len(inst.operands) == 2 else None
    if bound is None or not is_integer(inst):
        return whole
    return _bounded(inst, int(bound), depth) or whole


def _bounded(inst: Instruction, bound: int, depth: int) -> Range | None:
    """Return the range of an operation whose second operand is `bound` throughout."""
    name = inst.opcode.name
    if name == "and" and bound >= 0:
        return 0, bound
    if name == "remainder" and bound > 0:
        low, high = _range(inst.operands[0], depth - 1)
        return (0 if low >= 0 else 1 - bound), (bound - 1 if high > 0 else 0)
    if name in ("maximum", "minimum"):
        low, high = _range(inst.operands[0], depth - 1)
        pick = max if name == "maximum" else min
        return pick(low, bound), pick(high, bound)
    return None
