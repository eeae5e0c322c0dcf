"""Typed constructors of instructions that infer the shape, for passes and tests.

`Builder(computation).add(x, y)` adds `add(x, y)` to the computation and returns the instruction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from hloc.dtypes import DType, dtype_of_numpy
from hloc.ir.attributes import PaddingDimension, SliceDimension
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import ShapeRequest, opcode_row
from hloc.literal import literal_of
from hloc.shapes import ArrayShape, Shape

Dimensions: TypeAlias = Sequence[int]


@dataclass(frozen=True, slots=True)
class Builder:
    """Adds instructions to one computation; every method returns the new instruction.

    A rule that is broken raises `HloError`, as for text.
    """

    computation: Computation

    def instruction(
        self,
        name: str,
        operands: Sequence[Instruction] = (),
        attributes: Any = None,
        called: Sequence[Computation] = (),
        shape: Shape | None = None,
    ) -> Instruction:
        """Add opcode `name`; rows that cannot infer the result need `shape`.

        Attributes default to the row's defaults, if it has them all.
        """
        row = opcode_row(name)
        if attributes is None and row.attributes is not None:
            attributes = row.attributes()
        request = ShapeRequest(
            tuple(operand.shape for operand in operands), attributes, tuple(called), shape
        )
        inferred = row.infer(request)
        return self.computation.add(
            row, inferred if shape is None else shape, operands, attributes, called
        )

    def attributes_of(self, name: str, **values: Any) -> Any:
        """Return attributes of the class that row `name` names, so that no family is imported."""
        attributes = opcode_row(name).attributes
        assert attributes is not None, name
        return attributes(**values)

    # ---- values

    def parameter(self, number: int, shape: Shape) -> Instruction:
        """Add `parameter(number)`."""
        return self.instruction(
            "parameter", (), self.attributes_of("parameter", number=number), shape=shape
        )

    def constant(self, value: Any, dtype: DType | None = None) -> Instruction:
        """Add a constant from an array or a scalar; Python numbers need `dtype`."""
        array = np.asarray(value)
        if dtype is None:
            dtype = dtype_of_numpy(array.dtype)
        assert dtype is not None, f"no HLO type for {array.dtype}"
        literal = literal_of(array.astype(dtype.numpy, copy=False), dtype)
        attributes = self.attributes_of("constant", literal=literal)
        return self.instruction("constant", (), attributes, shape=literal.shape)

    def iota(self, dtype: DType, dims: Dimensions, iota_dimension: int = 0) -> Instruction:
        """Add an iota of `dtype` and sizes `dims` that counts along `iota_dimension`."""
        attributes = self.attributes_of("iota", iota_dimension=iota_dimension)
        return self.instruction("iota", (), attributes, shape=ArrayShape(dtype, tuple(dims)))

    # ---- elementwise

    def abs(self, x: Instruction) -> Instruction:
        return self.instruction("abs", (x,))

    def negate(self, x: Instruction) -> Instruction:
        return self.instruction("negate", (x,))

    def exponential(self, x: Instruction) -> Instruction:
        return self.instruction("exponential", (x,))

    def log(self, x: Instruction) -> Instruction:
        return self.instruction("log", (x,))

    def tanh(self, x: Instruction) -> Instruction:
        return self.instruction("tanh", (x,))

    def sqrt(self, x: Instruction) -> Instruction:
        return self.instruction("sqrt", (x,))

    def rsqrt(self, x: Instruction) -> Instruction:
        return self.instruction("rsqrt", (x,))

    def logical_not(self, x: Instruction) -> Instruction:
        return self.instruction("not", (x,))

    def copy(self, x: Instruction) -> Instruction:
        return self.instruction("copy", (x,))

    def add(self, x: Instruction, y: Instruction) -> Instruction:
        return self.instruction("add", (x, y))

    def subtract(self, x: Instruction, y: Instruction) -> Instruction:
        return self.instruction("subtract", (x, y))

    def multiply(self, x: Instruction, y: Instruction) -> Instruction:
        return self.instruction("multiply", (x, y))

    def divide(self, x: Instruction, y: Instruction) -> Instruction:
        return self.instruction("divide", (x, y))

    def remainder(self, x: Instruction, y: Instruction) -> Instruction:
        return self.instruction("remainder", (x, y))

    def power(self, x: Instruction, y: Instruction) -> Instruction:
        return self.instruction("power", (x, y))

    def maximum(self, x: Instruction, y: Instruction) -> Instruction:
        return self.instruction("maximum", (x, y))

    def minimum(self, x: Instruction, y: Instruction) -> Instruction:
        return self.instruction("minimum", (x, y))

    def logical_and(self, x: Instruction, y: Instruction) -> Instruction:
        return self.instruction("and", (x, y))

    def logical_or(self, x: Instruction, y: Instruction) -> Instruction:
        return self.instruction("or", (x, y))

    def logical_xor(self, x: Instruction, y: Instruction) -> Instruction:
        return self.instruction("xor", (x, y))

    def compare(
        self, x: Instruction, y: Instruction, direction: str, type: str = ""
    ) -> Instruction:
        """Add `compare(x, y), direction=EQ` and so on."""
        attributes = self.attributes_of("compare", direction=direction, type=type)
        return self.instruction("compare", (x, y), attributes)

    def select(self, pred: Instruction, on_true: Instruction, on_false: Instruction) -> Instruction:
        return self.instruction("select", (pred, on_true, on_false))

    def clamp(self, low: Instruction, x: Instruction, high: Instruction) -> Instruction:
        return self.instruction("clamp", (low, x, high))

    def convert(self, x: Instruction, dtype: DType) -> Instruction:
        """Add a convert of `x` to `dtype`; `x` itself if it has that type."""
        if x.array.dtype is dtype:
            return x
        return self.instruction("convert", (x,), shape=x.array.with_dtype(dtype))

    # ---- data movement

    def broadcast(
        self, x: Instruction, dims: Dimensions, dimensions: Dimensions = ()
    ) -> Instruction:
        """Add a broadcast of `x` to sizes `dims`; operand dimension i becomes `dimensions[i]`."""
        attributes = self.attributes_of("broadcast", dimensions=tuple(dimensions))
        shape = ArrayShape(x.array.dtype, tuple(dims))
        return self.instruction("broadcast", (x,), attributes, shape=shape)

    def reshape(self, x: Instruction, dims: Dimensions) -> Instruction:
        """Add a reshape of `x` to sizes `dims`."""
        return self.instruction("reshape", (x,), shape=ArrayShape(x.array.dtype, tuple(dims)))

    def bitcast(self, x: Instruction, shape: ArrayShape) -> Instruction:
        """Add a bitcast of the memory of `x` to `shape`."""
        return self.instruction("bitcast", (x,), shape=shape)

    def transpose(self, x: Instruction, dimensions: Dimensions) -> Instruction:
        """Add a transpose with a row-major result: dimension i is `dimensions[i]` of `x`."""
        attributes = self.attributes_of("transpose", dimensions=tuple(dimensions))
        shape = ArrayShape(x.array.dtype, tuple(x.array.dims[dim] for dim in dimensions))
        return self.instruction("transpose", (x,), attributes, shape=shape)

    def reverse(self, x: Instruction, dimensions: Dimensions) -> Instruction:
        attributes = self.attributes_of("reverse", dimensions=tuple(dimensions))
        return self.instruction("reverse", (x,), attributes)

    def slice(
        self,
        x: Instruction,
        starts: Dimensions,
        limits: Dimensions,
        strides: Dimensions | None = None,
    ) -> Instruction:
        """Add a slice; strides default to 1."""
        steps = [1] * len(starts) if strides is None else strides
        ranges = tuple(SliceDimension(*r) for r in zip(starts, limits, steps, strict=True))
        return self.instruction("slice", (x,), self.attributes_of("slice", slice=ranges))

    def concatenate(self, operands: Sequence[Instruction], dimension: int) -> Instruction:
        attributes = self.attributes_of("concatenate", dimensions=(dimension,))
        return self.instruction("concatenate", operands, attributes)

    def pad(
        self,
        x: Instruction,
        value: Instruction,
        low: Dimensions,
        high: Dimensions,
        interior: Dimensions | None = None,
    ) -> Instruction:
        """Add a pad with `value`; interior padding defaults to 0."""
        inner = [0] * len(low) if interior is None else interior
        padding = tuple(PaddingDimension(*p) for p in zip(low, high, inner, strict=True))
        return self.instruction("pad", (x, value), self.attributes_of("pad", padding=padding))

    def dynamic_slice(
        self, x: Instruction, starts: Sequence[Instruction], sizes: Dimensions
    ) -> Instruction:
        attributes = self.attributes_of("dynamic-slice", dynamic_slice_sizes=tuple(sizes))
        return self.instruction("dynamic-slice", (x, *starts), attributes)

    def dynamic_update_slice(
        self, x: Instruction, update: Instruction, starts: Sequence[Instruction]
    ) -> Instruction:
        return self.instruction("dynamic-update-slice", (x, update, *starts))

    # ---- structure

    def tuple(self, operands: Sequence[Instruction]) -> Instruction:
        return self.instruction("tuple", operands)

    def get_tuple_element(self, x: Instruction, index: int) -> Instruction:
        attributes = self.attributes_of("get-tuple-element", index=index)
        return self.instruction("get-tuple-element", (x,), attributes)

    def dot(self, x: Instruction, y: Instruction, **attributes: Any) -> Instruction:
        """Add a dot; keywords are the row's attributes, `lhs_contracting_dims=(1,)` and so on."""
        return self.instruction("dot", (x, y), self.attributes_of("dot", **attributes))

    def reduce(
        self,
        operands: Sequence[Instruction],
        inits: Sequence[Instruction],
        dimensions: Dimensions,
        to_apply: Computation,
    ) -> Instruction:
        """Add a reduce of one or more arrays over `dimensions`."""
        attributes = self.attributes_of("reduce", dimensions=tuple(dimensions))
        return self.instruction("reduce", (*operands, *inits), attributes, (to_apply,))

    def call(self, operands: Sequence[Instruction], to_apply: Computation) -> Instruction:
        return self.instruction("call", operands, called=(to_apply,))
