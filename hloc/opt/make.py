"""Instruction constructors for rules and passes; the caller gives the result shape with layout."""

from __future__ import annotations

from typing import Any

import numpy as np

from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ops.builder import Builder
from hloc.ops.builder import make as make
from hloc.shapes import ArrayShape, Shape


def like(
    computation: Computation, inst: Instruction, *operands: Instruction, shape: Shape
) -> Instruction:
    """Add an instruction like `inst` with other operands and another shape."""
    return computation.add(
        inst.opcode, shape, operands, inst.attributes, inst.called, common=inst.common
    )


def constant(computation: Computation, array: np.ndarray[Any, Any] | np.generic) -> Instruction:
    """Add a constant of the values of `array`."""
    return Builder(computation).constant(np.array(array))


def splat(computation: Computation, shape: ArrayShape, value: Any) -> Instruction:
    """Add an array of `shape` whose elements all are `value`."""
    return Builder(computation).splat(value, shape)


def splat_like(computation: Computation, inst: Instruction, shape: ArrayShape) -> Instruction:
    """Add an array of `shape` whose elements all are those of the splat `inst`.

    The literal is shared: what passes find out about it they find once.
    """
    literal = (inst.operands[0] if inst.is_a("broadcast") else inst).attributes.literal
    return splat(computation, shape, literal if literal.is_scalar else literal.uniform)


def reshaped(computation: Computation, inst: Instruction, shape: Shape) -> Instruction:
    """Return `inst` reshaped, itself if it has that shape."""
    return inst if inst.shape == shape else make(computation, "reshape", shape, inst)
