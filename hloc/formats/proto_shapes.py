"""Conversion of `ShapeProto` and `LayoutProto` to shapes and back."""

from __future__ import annotations

from typing import Any

from hloc.dtypes import DTYPES, DType
from hloc.formats.enums import BUFFER, ELEMENT_TYPES, TUPLE
from hloc.formats.faults import BadMessage
from hloc.shapes import UNBOUNDED, ArrayShape, BufferShape, Layout, Shape, TupleShape, row_major

MAX_RANK = 255
_LEAST = -(2**63)
_BY_NUMBER = {number: DTYPES[name] for name, number in ELEMENT_TYPES.items()}


_MOST_KNOWN = 4096
_known: dict[bytes, Shape] = {}
"""Shapes by their bytes: a module has few distinct ones, and reading them took a third of the
time."""


def shape_of(proto: Any) -> Shape:
    """Return the shape that a `ShapeProto` describes.

    Raises:
        BadMessage: it does not describe a shape.
    """
    data: bytes = proto.SerializeToString()
    found = _known.get(data)
    if found is None:
        found = _read(proto)
        if len(_known) < _MOST_KNOWN:
            _known[data] = found
    return found


def _read(proto: Any) -> Shape:
    kind = proto.element_type
    if kind == TUPLE:
        return TupleShape(tuple([shape_of(element) for element in proto.tuple_shapes]))
    if kind == BUFFER:
        inner = [shape_of(element) for element in proto.tuple_shapes]
        if len(inner) != 1 or not isinstance(inner[0], ArrayShape) or inner[0].dtype.is_special:
            raise BadMessage("a buffer shape holds one array shape")
        return BufferShape(inner[0])
    return _array_of(proto, _dtype(kind))


def _array_of(proto: Any, dtype: DType) -> ArrayShape:
    """Return an array shape; the least number in a dimension means an unbounded one."""
    dims = tuple([UNBOUNDED if size == _LEAST else size for size in proto.dimensions])
    rank = len(dims)
    if dtype.is_special and dims:
        raise BadMessage(f"{dtype.name} has no dimensions")
    if rank > MAX_RANK:
        raise BadMessage(f"a shape has {rank} dimensions, more than {MAX_RANK}")
    if any(size < 0 and size != UNBOUNDED for size in dims):
        raise BadMessage(f"a dimension has size {min(dims)}")
    dynamic = tuple(proto.is_dynamic_dimension)
    if dynamic and len(dynamic) != rank:
        raise BadMessage(f"{len(dynamic)} dynamic flags, but {rank} dimensions")
    if UNBOUNDED in dims:
        flags = dynamic or (False,) * rank
        dynamic = tuple(flag or size == UNBOUNDED for flag, size in zip(flags, dims, strict=True))
    layout = None
    if proto.HasField("layout") and not dtype.is_special:
        layout = _layout_of(proto.layout, rank)
    return ArrayShape(dtype, dims, layout, dynamic)


def _dtype(number: int) -> DType:
    found = _BY_NUMBER.get(number)
    if found is None:
        raise BadMessage(f"element type number {number} is unknown")
    return found


def _layout_of(proto: Any, rank: int) -> Layout | None:
    """Return a layout, None for the default one: row-major, without tiles."""
    order = tuple(proto.minor_to_major)
    if sorted(order) != list(range(rank)):
        raise BadMessage(f"the layout {list(order)} is no order of {rank} dimensions")
    layout = Layout(
        order,
        tuple(
            tuple(None if size == _LEAST else _natural(size, "a tile") for size in tile.dimensions)
            for tile in proto.tiles
        ),
        _natural(proto.tail_padding_alignment_in_elements, "the tail alignment") or 1,
        _index_type(proto.index_primitive_type),
        _index_type(proto.pointer_primitive_type),
        _natural(proto.element_size_in_bits, "an element"),
        proto.memory_space,
        tuple((split.dimension, tuple(split.split_indices)) for split in proto.split_configs),
        _natural(proto.dynamic_shape_metadata_prefix_bytes, "the metadata prefix"),
    )
    return None if layout == row_major(rank) else layout


def _natural(value: int, what: str) -> int:
    if value < 0:
        raise BadMessage(f"{what} has size {value}")
    return value


def _index_type(number: int) -> DType | None:
    if number == 0:
        return None
    found = _dtype(number)
    if not found.is_unsigned:
        raise BadMessage(f"{found.name} is not an unsigned integer type")
    return found


def fill_shape(proto: Any, shape: Shape) -> None:
    """Fill an empty `ShapeProto` with `shape`."""
    if isinstance(shape, TupleShape):
        proto.element_type = TUPLE
        for element in shape.elements:
            fill_shape(proto.tuple_shapes.add(), element)
    elif isinstance(shape, BufferShape):
        proto.element_type = BUFFER
        fill_shape(proto.tuple_shapes.add(), shape.array)
    else:
        proto.element_type = ELEMENT_TYPES[shape.dtype.name]
        if shape.dtype.is_special:
            return
        proto.dimensions.extend([_LEAST if size == UNBOUNDED else size for size in shape.dims])
        proto.is_dynamic_dimension.extend([shape.is_dynamic(dim) for dim in range(shape.rank)])
        _fill_layout(proto.layout, shape.layout or row_major(shape.rank))


def _fill_layout(proto: Any, layout: Layout) -> None:
    proto.minor_to_major.extend(layout.minor_to_major)
    proto.tail_padding_alignment_in_elements = layout.tail_alignment
    proto.element_size_in_bits = layout.element_bits
    proto.memory_space = layout.memory_space
    proto.dynamic_shape_metadata_prefix_bytes = layout.metadata_prefix_bytes
    for tile in layout.tiles:
        proto.tiles.add(dimensions=[_LEAST if size is None else size for size in tile])
    if layout.index_type is not None:
        proto.index_primitive_type = ELEMENT_TYPES[layout.index_type.name]
    if layout.pointer_type is not None:
        proto.pointer_primitive_type = ELEMENT_TYPES[layout.pointer_type.name]
    for dim, points in layout.splits:
        proto.split_configs.add(dimension=dim, split_indices=points)
