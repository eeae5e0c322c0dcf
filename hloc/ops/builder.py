"""Constructors of instructions that infer the shape, for passes and tests.

`Builder(computation).add(x, y)` adds `add(x, y)` to the computation and returns the instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from hloc.dtypes import DType, dtype_of_numpy
from hloc.ir.attributes import PaddingDimension, SliceDimension
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import OPCODES, ShapeRequest, opcode_row
from hloc.lazy_dataclass import dataclass
from hloc.literal import Literal, literal_of
from hloc.shapes import ArrayShape, Shape


def opcode_spelled(name: str) -> str:
    """Return the opcode that `name` spells in Python: `reduce_window`, `and_`, `logical_and`."""
    return name.removeprefix("logical_").rstrip("_").replace("_", "-")


Dimensions: TypeAlias = Sequence[int]


def make(
    computation: Computation, opcode: str, shape: Shape, *operands: Instruction, **attributes: Any
) -> Instruction:
    """Add an instruction whose shape the caller knows; attributes by the field names of the row.

    Nothing is checked: passes have verified modules to start from, and tests verify what they make.
    """
    row = opcode_row(opcode)
    record = row.attributes(**attributes) if row.attributes is not None else None
    return computation.add(row, shape, operands, record)


@dataclass(frozen=True, slots=True)
class Builder:
    """Adds instructions to one computation; every opcode is a method that returns the instruction.

    A method takes the operands, attributes by name, `called=`, and `shape=` where it cannot be
    inferred: `b.multiply(x, y)`, `b.logical_and(x, y)`, `b.sort(x, dimensions=(0,), called=(f,))`.
    Opcodes that are easier to write with other arguments have their own methods below. Operands or
    attributes that break the shape rule raise `HloError`, as in text.
    """

    computation: Computation

    def instruction(
        self,
        name: str,
        operands: Sequence[Instruction] = (),
        attributes: Any = None,
        called: Sequence[Computation] = (),
        shape: Shape | None = None,
        **values: Any,
    ) -> Instruction:
        """Add opcode `name`; rows that cannot infer the result need `shape`.

        Attributes are one record, or values by name; the others have the row's defaults.
        """
        row = opcode_row(name)
        if attributes is None and row.attributes is not None:
            attributes = row.attributes(**values)
        request = ShapeRequest(
            tuple(operand.shape for operand in operands), attributes, tuple(called), shape
        )
        inferred = row.infer(request)
        return self.computation.add(
            row, inferred if shape is None else shape, operands, attributes, called
        )

    def __getattr__(self, name: str) -> Callable[..., Instruction]:
        opcode = opcode_spelled(name)
        if name.startswith("_") or opcode not in OPCODES:
            raise AttributeError(name)

        def add(
            *operands: Instruction,
            shape: Shape | None = None,
            called: Sequence[Computation] = (),
            **values: Any,
        ) -> Instruction:
            return self.instruction(opcode, operands, None, called, shape, **values)

        return add

    def scalar_function(self, opcode: str, dtype: DType, name: str = "") -> Computation:
        """Add a computation that applies `opcode` to two scalars, for reductions and scatters."""
        inner = Builder(self.computation.module.add_computation(name or opcode))
        x, y = (inner.parameter(number, ArrayShape(dtype)) for number in (0, 1))
        inner.computation.set_root(inner.instruction(opcode, (x, y)))
        return inner.computation

    # ---- values

    def parameter(self, number: int, shape: Shape) -> Instruction:
        """Add `parameter(number)`."""
        return self.instruction("parameter", number=number, shape=shape)

    def constant(self, value: Any, dtype: DType | None = None) -> Instruction:
        """Add a constant from a literal, an array or a scalar; Python numbers need `dtype`."""
        if isinstance(value, Literal):
            return make(self.computation, "constant", value.shape, literal=value)
        array = np.asarray(value)
        if dtype is None:
            dtype = dtype_of_numpy(array.dtype)
        assert dtype is not None, f"no HLO type for {array.dtype}"
        literal = literal_of(array.astype(dtype.numpy, copy=False), dtype)
        return make(self.computation, "constant", literal.shape, literal=literal)

    def splat(self, value: Any, shape: ArrayShape) -> Instruction:
        """Add an array of `shape` with `value` in every element: a scalar, broadcast if need be."""
        scalar = self.constant(value, shape.dtype)
        if not shape.dims and shape == scalar.shape:
            return scalar
        return make(self.computation, "broadcast", shape, scalar, dimensions=())

    def iota(self, dtype: DType, dims: Dimensions, iota_dimension: int = 0) -> Instruction:
        """Add an iota of `dtype` and sizes `dims` that counts along `iota_dimension`."""
        return self.instruction(
            "iota", (), shape=ArrayShape(dtype, tuple(dims)), iota_dimension=iota_dimension
        )

    # ---- elementwise

    def compare(
        self, x: Instruction, y: Instruction, direction: str, type: str = ""
    ) -> Instruction:
        """Add `compare(x, y), direction=EQ` and so on."""
        return self.instruction("compare", (x, y), direction=direction, type=type)

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
        shape = ArrayShape(x.array.dtype, tuple(dims))
        return self.instruction("broadcast", (x,), shape=shape, dimensions=tuple(dimensions))

    def reshape(self, x: Instruction, dims: Dimensions) -> Instruction:
        """Add a reshape of `x` to sizes `dims`."""
        return self.instruction("reshape", (x,), shape=ArrayShape(x.array.dtype, tuple(dims)))

    def bitcast(self, x: Instruction, shape: ArrayShape) -> Instruction:
        """Add a bitcast of the memory of `x` to `shape`."""
        return self.instruction("bitcast", (x,), shape=shape)

    def transpose(self, x: Instruction, dimensions: Dimensions) -> Instruction:
        """Add a transpose with a row-major result: dimension i is `dimensions[i]` of `x`."""
        shape = ArrayShape(x.array.dtype, tuple(x.array.dims[dim] for dim in dimensions))
        return self.instruction("transpose", (x,), shape=shape, dimensions=tuple(dimensions))

    def reverse(self, x: Instruction, dimensions: Dimensions) -> Instruction:
        return self.instruction("reverse", (x,), dimensions=tuple(dimensions))

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
        return self.instruction("slice", (x,), slice=ranges)

    def concatenate(self, operands: Sequence[Instruction], dimension: int) -> Instruction:
        return self.instruction("concatenate", operands, dimensions=(dimension,))

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
        return self.instruction("pad", (x, value), padding=padding)

    def dynamic_slice(
        self, x: Instruction, starts: Sequence[Instruction], sizes: Dimensions
    ) -> Instruction:
        return self.instruction("dynamic-slice", (x, *starts), dynamic_slice_sizes=tuple(sizes))

    def dynamic_update_slice(
        self, x: Instruction, update: Instruction, starts: Sequence[Instruction]
    ) -> Instruction:
        return self.instruction("dynamic-update-slice", (x, update, *starts))

    # ---- structure

    def tuple(self, operands: Sequence[Instruction]) -> Instruction:
        return self.instruction("tuple", operands)

    def get_tuple_element(self, x: Instruction, index: int) -> Instruction:
        return self.instruction("get-tuple-element", (x,), index=index)

    def reduce(
        self,
        operands: Sequence[Instruction],
        inits: Sequence[Instruction],
        dimensions: Dimensions,
        to_apply: Computation,
    ) -> Instruction:
        """Add a reduce of one or more arrays over `dimensions`."""
        return self.instruction(
            "reduce", (*operands, *inits), called=(to_apply,), dimensions=tuple(dimensions)
        )

    def call(self, operands: Sequence[Instruction], to_apply: Computation) -> Instruction:
        return self.instruction("call", operands, called=(to_apply,))
