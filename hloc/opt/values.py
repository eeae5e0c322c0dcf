"""Predicates on instructions, for guards of rules."""

from __future__ import annotations

from collections.abc import Callable
from math import frexp, isfinite
from typing import Any

import numpy as np

from hloc.dtypes import DType
from hloc.ir.instruction import Instruction
from hloc.opt.pattern import SPLAT, only_of
from hloc.shapes import ArrayShape

of_splats = only_of("constant", SPLAT)
"""Marks conditions that hold for what `splat_value` sees alone."""


def dtype_of(inst: Instruction) -> DType | None:
    """Return the element type, None for a tuple."""
    return inst.shape.dtype if isinstance(inst.shape, ArrayShape) else None


def is_float(inst: Instruction) -> bool:
    dtype = dtype_of(inst)
    return dtype is not None and dtype.is_float


def is_integer(inst: Instruction) -> bool:
    dtype = dtype_of(inst)
    return dtype is not None and dtype.is_integer


def is_unsigned(inst: Instruction) -> bool:
    dtype = dtype_of(inst)
    return dtype is not None and dtype.is_unsigned


def is_pred(inst: Instruction) -> bool:
    dtype = dtype_of(inst)
    return dtype is not None and dtype.is_pred


def is_integer_or_pred(inst: Instruction) -> bool:
    return is_integer(inst) or is_pred(inst)


def is_real(inst: Instruction) -> bool:
    return is_integer(inst) or is_float(inst)


def has_one_user(inst: Instruction) -> bool:
    return len(inst.users) == 1


def splat_value(inst: Instruction) -> Any:
    """Return the value of a splat, a NumPy scalar, or None if it is unknown or none.

    Recognises a constant and a broadcast of a constant; arrays without elements have none.
    """
    if inst.opcode.name == "broadcast":
        inst = inst.operands[0]
    if inst.opcode.name != "constant" or not isinstance(inst.shape, ArrayShape):
        return None
    return inst.attributes.literal.uniform


@of_splats
def is_splat(inst: Instruction) -> bool:
    return splat_value(inst) is not None


def splat_of(value: float) -> Callable[[Instruction], bool]:
    """Return a condition: all elements equal `value` (-0.0 equals 0)."""
    of_type: dict[Any, Any] = {}

    @of_splats
    def condition(inst: Instruction) -> bool:
        found = splat_value(inst)
        if found is None:
            return False
        wanted = of_type.get(found.dtype)
        if wanted is None:
            wanted = of_type[found.dtype] = np.asarray(value).astype(found.dtype)[()]
        return bool(found == wanted)

    return condition


@of_splats
def is_zero(inst: Instruction) -> bool:
    """All elements are 0, for floats of either sign."""
    found = splat_value(inst)
    return found is not None and not found


@of_splats
def is_positive_zero(inst: Instruction) -> bool:
    return is_zero(inst) and is_float(inst) and not _sign_bit(splat_value(inst))


@of_splats
def is_negative_zero(inst: Instruction) -> bool:
    return is_zero(inst) and is_float(inst) and _sign_bit(splat_value(inst))


def _sign_bit(value: Any) -> bool:
    return bool(np.signbit(np.float64(value)))


@of_splats
def is_all_ones(inst: Instruction) -> bool:
    """All bits of all elements are set: `true`, -1, or the largest unsigned value."""
    found = splat_value(inst)
    if found is None or not is_integer_or_pred(inst):
        return False
    return int(found) == (-1 if inst.array.dtype.is_signed else 2**inst.array.dtype.bits - 1)


def power_of_two(inst: Instruction) -> int | None:
    """Return k if all elements are 2**k, for integers and k >= 0 or floats and any k."""
    found = splat_value(inst)
    if found is None:
        return None
    if is_integer(inst):
        value = int(found)
        return value.bit_length() - 1 if value > 0 and value & (value - 1) == 0 else None
    if not is_float(inst) or not isfinite(float(found)):
        return None
    mantissa, exponent = frexp(float(found))
    return exponent - 1 if mantissa == 0.5 else None


_MOST_LOOKED_AT = 64


def makes_no_nan(inst: Instruction) -> bool:
    """True if `inst` is finite if parameters are and nothing overflows; bounded search."""
    seen, stack = {inst}, [inst]
    while stack and len(seen) <= _MOST_LOOKED_AT:
        at = stack.pop()
        if at.is_a("constant"):
            literal = at.attributes.literal
            if literal.is_elided or not isinstance(literal.value, np.ndarray):
                return False
            if not np.isfinite(literal.value.astype(np.complex128)).all():
                return False
        elif not (at.opcode.keeps_finite or at.opcode.data_movement or at.opcode.nop):
            return False
        stack += [operand for operand in at.operands if operand not in seen]
        seen.update(at.operands)
    return not stack


def is_above_zero(inst: Instruction) -> bool:
    """True if every element of `inst` is above 0 or NaN, by its last operations.

    Recognises constants and bounds by `maximum` and `clamp`.
    """
    value = splat_value(inst)
    if value is not None:
        return bool(value > 0)
    if inst.is_a("maximum"):
        return any(map(_is_positive_splat, inst.operands))
    if inst.is_a("clamp"):
        return all(map(_is_positive_splat, (inst.operands[0], inst.operands[2])))
    return False


def _is_positive_splat(inst: Instruction) -> bool:
    value = splat_value(inst)
    return value is not None and bool(value > 0)


def same_operands(a: Instruction, b: Instruction) -> bool:
    """True if `a` and `b` are the same instruction or splats of the same value."""
    if a is b:
        return True
    x, y = splat_value(a), splat_value(b)
    return x is not None and y is not None and a.shape == b.shape and x.tobytes() == y.tobytes()


def default_layout(*insts: Instruction) -> bool:
    """True if all are arrays in plain row-major order."""
    return all(isinstance(i.shape, ArrayShape) and i.shape.layout is None for i in insts)
