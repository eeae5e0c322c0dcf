"""Shapes and layouts: frozen values compared by content.

A `Shape` is an `ArrayShape` (tokens and opaques too), a `TupleShape` or a `BufferShape`.
Text form and rules: format reference, "Shapes and layouts".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import prod
from typing import TypeAlias

from hloc.dtypes import DTYPES, TOKEN, DType
from hloc.lazy_dataclass import dataclass, lazy_property

UNBOUNDED = -1
"""The size of a dimension written `?`."""

MAX_HOST_RANK = 64
"""Maximum rank of an argument, a result, or a value in the evaluator: that of NumPy arrays."""

ShapeIndex: TypeAlias = tuple[int, ...]
"""A path into nested tuples; `()` is the whole shape."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The memory layout of an array; `minor_to_major[0]` is the fastest-varying dimension.

    Attributes:
        tiles: tile sizes, outermost tiling first; None stands for `*` (combine with the next).
        tail_alignment: `L(n)`, in elements.
        index_type, pointer_type: `#(u32)` and `*(u32)`.
        element_bits: `E(n)`, width of a packed element, 0 if not packed.
        memory_space: `S(n)`, 0 is the default memory.
        splits: `SC(dim:i,j)` pairs of dimension and split points.
        metadata_prefix_bytes: `M(n)`.
    """

    minor_to_major: tuple[int, ...]
    tiles: tuple[tuple[int | None, ...], ...] = ()
    tail_alignment: int = 1
    index_type: DType | None = None
    pointer_type: DType | None = None
    element_bits: int = 0
    memory_space: int = 0
    splits: tuple[tuple[int, tuple[int, ...]], ...] = ()
    metadata_prefix_bytes: int = 0

    def __str__(self) -> str:
        parts = [",".join(map(str, self.minor_to_major))]
        attributes = self._attributes()
        if attributes:
            parts.append(":" + attributes)
        return "{" + "".join(parts) + "}"

    @property
    def has_attributes(self) -> bool:
        """True if anything besides the dimension order is set."""
        return self != Layout(self.minor_to_major)

    def _attributes(self) -> str:
        """Return what follows the order of dimensions in the text, in XLA's order."""
        text = ""
        if self.tiles:
            text += "T" + "".join(
                "(" + ",".join("*" if n is None else str(n) for n in tile) + ")"
                for tile in self.tiles
            )
        if self.tail_alignment != 1:
            text += f"L({self.tail_alignment})"
        if self.index_type is not None:
            text += f"#({self.index_type})"
        if self.pointer_type is not None:
            text += f"*({self.pointer_type})"
        if self.element_bits:
            text += f"E({self.element_bits})"
        if self.memory_space:
            text += f"S({self.memory_space})"
        if self.splits:
            text += "SC" + "".join(
                f"({dim}:{','.join(map(str, points))})" for dim, points in self.splits
            )
        if self.metadata_prefix_bytes:
            text += f"M({self.metadata_prefix_bytes})"
        return text


_ROW_MAJOR = [Layout(tuple(range(rank - 1, -1, -1))) for rank in range(16)]


def row_major(rank: int) -> Layout:
    """Return the default layout `{rank-1,...,1,0}`."""
    return _ROW_MAJOR[rank] if rank < 16 else Layout(tuple(range(rank - 1, -1, -1)))


@dataclass(frozen=True)
class ArrayShape:
    """Element type, sizes and layout: `f32[8,128]{1,0}`.

    Attributes:
        dims: size per dimension; the bound of a dynamic one, `UNBOUNDED` for `?`.
        layout: None is plain row-major; plain row-major is always stored as None, so that
            equal shapes compare equal.
        dynamic: one flag per dimension, or `()` if none is dynamic.
    """

    dtype: DType
    dims: tuple[int, ...] = ()
    layout: Layout | None = None
    dynamic: tuple[bool, ...] = ()

    def __post_init__(self) -> None:
        if self.dynamic and not any(self.dynamic):
            object.__setattr__(self, "dynamic", ())
        if self.layout is not None and self.layout == row_major(len(self.dims)):
            object.__setattr__(self, "layout", None)

    def __str__(self) -> str:
        return self._text

    @lazy_property
    def _text(self) -> str:
        text = self.text_without_layout
        layout = self.layout or row_major(self.rank)
        return text + str(layout) if self.rank or layout.has_attributes else text

    @lazy_property
    def text_without_layout(self) -> str:
        """`f32[<=8,128]`: type and dimensions only."""
        sizes = (
            "?" if size == UNBOUNDED else f"<={size}" if self.is_dynamic(dim) else str(size)
            for dim, size in enumerate(self.dims)
        )
        return f"{self.dtype}[{','.join(sizes)}]"

    @property
    def rank(self) -> int:
        return len(self.dims)

    @lazy_property
    def elements(self) -> int:
        """Number of elements; a dynamic dimension counts as its bound, an unbounded one as 1."""
        dims = self.dims
        return prod([n for n in dims if n != UNBOUNDED] if UNBOUNDED in dims else dims)

    @lazy_property
    def size_bytes(self) -> int:
        """Bytes in memory, one element per `dtype.storage_bytes`; tokens take none."""
        return 0 if self.dtype.is_special else self.elements * self.dtype.storage_bytes

    @lazy_property
    def is_static_data(self) -> bool:
        """An array of static size that has elements, in memory like any other."""
        return (
            not self.dynamic
            and not self.dtype.is_special
            and self.elements > 0
            and not (self.layout is not None and self.layout.has_attributes)
        )

    @lazy_property
    def minor_to_major(self) -> tuple[int, ...]:
        return (self.layout or row_major(self.rank)).minor_to_major

    @property
    def is_scalar(self) -> bool:
        return not self.dims and not self.dtype.is_special

    def is_dynamic(self, dim: int) -> bool:
        """True if `dim` is written `<=n` or `?`."""
        return bool(self.dynamic) and self.dynamic[dim]

    def with_dtype(self, dtype: DType) -> ArrayShape:
        """Return this shape with another element type and the same order of dimensions."""
        return self if dtype is self.dtype else replace(self, dtype=dtype)

    def with_layout(self, layout: Layout | None) -> ArrayShape:
        """Return this shape with `layout`."""
        return replace(self, layout=layout)


@dataclass(frozen=True)
class TupleShape:
    """A tuple of shapes, possibly empty or nested."""

    elements: tuple[Shape, ...] = ()

    def __str__(self) -> str:
        return self._text

    @lazy_property
    def _text(self) -> str:
        return "(" + _join_elements([str(e) for e in self.elements]) + ")"

    @lazy_property
    def text_without_layout(self) -> str:
        """Elements without layouts, with XLA's `/*index=5*/` marks."""
        return "(" + _join_elements([e.text_without_layout for e in self.elements]) + ")"

    @lazy_property
    def leaves(self) -> tuple[tuple[ShapeIndex, ArrayShape | BufferShape], ...]:
        """Every non-tuple part with its index, depth first."""
        found: list[tuple[ShapeIndex, ArrayShape | BufferShape]] = []
        stack: list[tuple[ShapeIndex, Shape]] = [((), self)]
        while stack:
            index, part = stack.pop()
            if isinstance(part, TupleShape):
                stack.extend([((*index, i), e) for i, e in enumerate(part.elements)][::-1])
            else:
                found.append((index, part))
        return tuple(found)

    @lazy_property
    def size_bytes(self) -> int:
        """Bytes of all leaves together."""
        return sum(e.size_bytes for e in self.elements)

    @lazy_property
    def is_static_data(self) -> bool:
        """A tuple of arrays, as a reduce of several has, all `is_static_data`."""
        return bool(self.elements) and all(
            isinstance(e, ArrayShape) and e.is_static_data for e in self.elements
        )


@dataclass(frozen=True)
class BufferShape:
    """`b(f32[2]{0})`: a buffer that several instructions write in place."""

    array: ArrayShape

    def __str__(self) -> str:
        return f"b({self.array})"

    @property
    def text_without_layout(self) -> str:
        """The element shape without layout, in `b(...)`."""
        return f"b({self.array.text_without_layout})"

    @property
    def size_bytes(self) -> int:
        return self.array.size_bytes

    @property
    def is_static_data(self) -> bool:
        """No: what writes it does so in place."""
        return False


Shape: TypeAlias = ArrayShape | TupleShape | BufferShape

TOKEN_SHAPE = ArrayShape(TOKEN)


def _join_elements(texts: list[str]) -> str:
    marked = [f"/*index={i}*/{t}" if i and i % 5 == 0 else t for i, t in enumerate(texts)]
    return ", ".join(marked)


def array_shape(dtype: str | DType, *dims: int) -> ArrayShape:
    """Return `dtype[dims]` without a layout: `array_shape("f32", 8, 128)`."""
    return ArrayShape(DTYPES[dtype] if isinstance(dtype, str) else dtype, tuple(dims))


def leaves(shape: Shape) -> tuple[tuple[ShapeIndex, ArrayShape | BufferShape], ...]:
    """Return every non-tuple part with its index, depth first."""
    return shape.leaves if isinstance(shape, TupleShape) else (((), shape),)


def data_leaves(shape: Shape) -> list[tuple[ShapeIndex, ArrayShape]]:
    """Return the array leaves of `shape`, including empty arrays, without tokens and opaques."""
    if isinstance(shape, ArrayShape):
        return [] if shape.dtype.is_special else [((), shape)]
    found = []
    for index, leaf in leaves(shape):
        array = leaf.array if isinstance(leaf, BufferShape) else leaf
        if not array.dtype.is_special:
            found.append((index, array))
    return found


def array_leaves(shape: Shape) -> list[ArrayShape]:
    """Return the parts of `shape` that are in memory, depth first: no tokens, no opaques."""
    if isinstance(shape, ArrayShape):
        return [] if shape.dtype.is_special else [shape]
    return [leaf for _, leaf in data_leaves(shape)]


def shape_at(shape: Shape, index: ShapeIndex) -> Shape:
    """Return the part of `shape` at `index`; raises IndexError if there is none."""
    for i in index:
        if not isinstance(shape, TupleShape):
            raise IndexError(index)
        shape = shape.elements[i]
    return shape


def compatible(a: Shape, b: Shape) -> bool:
    """True if element types and dimensions are the same; layouts are ignored.

    A dynamic dimension is compatible with a static one of its bound and `?` with any size, as in
    XLA's `Shape::Equal` for operands.
    """
    if a is b:
        return True
    if isinstance(a, ArrayShape) and isinstance(b, ArrayShape):
        return (
            a.dtype is b.dtype
            and len(a.dims) == len(b.dims)
            and (
                a.dims == b.dims
                or all(m == n or UNBOUNDED in (m, n) for m, n in zip(a.dims, b.dims, strict=True))
            )
        )
    if isinstance(a, TupleShape) and isinstance(b, TupleShape):
        return len(a.elements) == len(b.elements) and all(
            compatible(x, y) for x, y in zip(a.elements, b.elements, strict=True)
        )
    if isinstance(a, BufferShape) and isinstance(b, BufferShape):
        return compatible(a.array, b.array)
    return False


def same_dims(a: ArrayShape, b: ArrayShape) -> bool:
    """True if the sizes are the same; ignores element types and layouts, `?` equals any size."""
    return compatible(a.with_dtype(b.dtype), b)


def same_layouts(a: Shape, b: Shape) -> bool:
    """True if all leaves of the compatible shapes have the same dimension order."""
    return all(
        not isinstance(x, ArrayShape)
        or not isinstance(y, ArrayShape)
        or x.minor_to_major == y.minor_to_major
        for (_, x), (_, y) in zip(leaves(a), leaves(b), strict=True)
    )


def dense_strides(dims: Sequence[int], minor_to_major: Iterable[int]) -> tuple[int, ...]:
    """Return the stride, in elements, of every dimension of a dense array in this order."""
    strides, step = [0] * len(dims), 1
    for dim in minor_to_major:
        strides[dim] = step
        step *= dims[dim]
    return tuple(strides)
