"""A computation being made static: the sizes that are values, and masks by them.

Arrays keep their bounds; each dynamic dimension has an `s32[]` with its current size. Elements
beyond the current sizes are undefined and are masked where they affect results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any, TypeAlias

import numpy as np

from hloc.dtypes import S32
from hloc.errors import UnsupportedError
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.ops.builder import Builder
from hloc.shapes import ArrayShape, Shape, ShapeIndex, TupleShape, leaves

Sizes: TypeAlias = Mapping[int, Instruction]
"""Dimension -> `s32[]`; other dimensions have the size in the shape."""


def static(shape: Shape) -> Shape:
    """Return `shape` with every dynamic dimension at its bound."""
    if isinstance(shape, TupleShape):
        return TupleShape(tuple(static(element) for element in shape.elements))
    return replace(shape, dynamic=()) if isinstance(shape, ArrayShape) else shape


def has_dynamic(shape: Shape) -> bool:
    """True if a dimension anywhere in `shape` is dynamic."""
    if isinstance(shape, ArrayShape):
        return bool(shape.dynamic)
    return any(isinstance(leaf, ArrayShape) and bool(leaf.dynamic) for _, leaf in leaves(shape))


@dataclass(slots=True)
class Scope:
    """The known sizes in one computation.

    Attributes:
        leaves: per instruction and leaf of its result, the sizes of dynamic dimensions.
    """

    computation: Computation
    leaves: dict[Instruction, dict[ShapeIndex, Sizes]] = field(default_factory=dict)

    @property
    def b(self) -> Builder:
        """A builder for the computation."""
        return Builder(self.computation)

    # ---- known sizes

    def sizes(self, inst: Instruction, index: ShapeIndex = ()) -> Sizes:
        """Return the sizes of one leaf of `inst`."""
        return self.leaves.get(inst, {}).get(index, {})

    def is_dynamic(self, inst: Instruction) -> bool:
        """True if a leaf of `inst` has a size that is a value."""
        return any(self.leaves.get(inst, {}).values())

    def size(self, inst: Instruction, dim: int, index: ShapeIndex = ()) -> Instruction:
        """Return the present size of dimension `dim`, a constant if it is static."""
        found = self.sizes(inst, index).get(dim)
        if found is not None:
            return found
        shape = inst.shape
        for i in index:
            assert isinstance(shape, TupleShape)
            shape = shape.elements[i]
        assert isinstance(shape, ArrayShape)
        return self.number(shape.dims[dim])

    def number(self, value: int) -> Instruction:
        """Add the constant `s32[]` `value`."""
        return self.b.constant(value, S32)

    # ---- new sizes

    def make_static(self, inst: Instruction, sizes: Sizes | None = None) -> None:
        """Give `inst` a static shape; `sizes` are those of its only leaf."""
        self.computation.set_shape(inst, static(inst.shape))
        if sizes:
            self.leaves[inst] = {(): sizes}

    def make_leaves_static(self, inst: Instruction, found: dict[ShapeIndex, Sizes]) -> None:
        """Give `inst` a static shape and the sizes of all its leaves."""
        self.computation.set_shape(inst, static(inst.shape))
        self.leaves[inst] = {index: sizes for index, sizes in found.items() if sizes}

    def make_all_static(self, inst: Instruction, sizes: Sizes) -> None:
        """Give `inst` a static shape, and every leaf of its result the same sizes."""
        if isinstance(inst.shape, TupleShape):
            self.make_leaves_static(inst, {(i,): sizes for i in range(len(inst.shape.elements))})
        else:
            self.make_static(inst, sizes)

    def become(self, inst: Instruction, new: Instruction, sizes: Sizes | None = None) -> None:
        """Replace `inst` by `new`, in the layout of `inst`."""
        wanted = static(inst.shape)
        if new.shape != wanted:
            new = self.b.instruction("copy", (new,), shape=wanted)
        self.computation.replace(inst, new)
        if sizes:
            self.leaves[new] = {(): sizes}

    # ---- masks

    def masked(self, inst: Instruction, value: Instruction, dims: list[int]) -> Instruction:
        """Return `inst` with scalar `value` outside the present sizes of `dims`."""
        inside = self.inside(inst, dims)
        if inside is None:
            return inst
        shape = inst.array
        fill = self.b.broadcast(value, shape.dims)
        return self.b.instruction("select", (inside, inst, fill), shape=shape)

    def inside(self, inst: Instruction, dims: list[int]) -> Instruction | None:
        """Return a `pred` array, true inside the sizes of `dims`; None if it is true everywhere."""
        sizes = self.sizes(inst)
        return inside_of(self.b, inst.array.dims, {dim: sizes[dim] for dim in dims if dim in sizes})

    def zero(self, inst: Instruction) -> Instruction:
        """Add the scalar zero of the element type of `inst`."""
        dtype = inst.array.dtype
        return self.b.constant(np.zeros((), dtype.numpy), dtype)


def inside_of(b: Builder, dims: tuple[int, ...], sizes: Sizes) -> Instruction | None:
    """Return a `pred` array of `dims`, true inside `sizes`; None if there are none."""
    found: Instruction | None = None
    for dim, size in sizes.items():
        below = b.compare(b.iota(S32, dims, dim), b.broadcast(size, dims), "LT")
        found = below if found is None else b.logical_and(found, below)
    return found


def refuse(inst: Instruction, why: str) -> Any:
    """Raise: these dynamic sizes are not supported."""
    raise UnsupportedError(
        f"{inst.opcode.name} {inst.name} cannot run with dynamic sizes: {why}", inst.span
    )


def same_size(x: Instruction, y: Instruction) -> bool:
    """True if both are one instruction or equal constants."""
    if x is y:
        return True
    return (
        x.is_a("constant")
        and y.is_a("constant")
        and int(x.attributes.literal.array) == int(y.attributes.literal.array)
    )
