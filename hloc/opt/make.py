"""Small constructors for rules and passes: the caller says the result shape, layout included."""

from __future__ import annotations

from typing import Any

import numpy as np

from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import opcode_row
from hloc.literal import literal_of
from hloc.shapes import ArrayShape, Shape


def make(
    computation: Computation, opcode: str, shape: Shape, *operands: Instruction, **attributes: Any
) -> Instruction:
    """Add an instruction; attributes by the field names of the row."""
    row = opcode_row(opcode)
    values = row.attributes(**attributes) if row.attributes is not None else None
    return computation.add(row, shape, operands, values)


def like(
    computation: Computation, inst: Instruction, *operands: Instruction, shape: Shape
) -> Instruction:
    """Add an instruction like `inst` with other operands and another shape."""
    return computation.add(
        inst.opcode, shape, operands, inst.attributes, inst.called, common=inst.common
    )


def constant(computation: Computation, array: np.ndarray[Any, Any] | np.generic) -> Instruction:
    """Add a constant of the values of `array`."""
    literal = literal_of(np.array(array))
    return make(computation, "constant", literal.shape, literal=literal)


def splat(computation: Computation, shape: ArrayShape, value: Any) -> Instruction:
    """Add an array of `shape` whose elements all are `value`: a scalar, broadcast if need be."""
    scalar = constant(computation, np.asarray(value).astype(shape.dtype.numpy))
    if not shape.dims and shape == scalar.shape:
        return scalar
    return make(computation, "broadcast", shape, scalar, dimensions=())


def reshaped(computation: Computation, inst: Instruction, shape: ArrayShape) -> Instruction:
    """Return `inst` reshaped, itself if it has that shape."""
    return inst if inst.shape == shape else make(computation, "reshape", shape, inst)
