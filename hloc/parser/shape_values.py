"""Callbacks of the shape rules."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hloc.dtypes import DTYPES, DType
from hloc.ir.names import is_other_token
from hloc.near_names import did_you_mean
from hloc.parser.value_tools import BadValue, constant, int_of, of_all, of_first, of_pair, tagged
from hloc.shapes import UNBOUNDED, ArrayShape, BufferShape, Layout, Shape, TupleShape

_LARGEST = 2**63 - 1


class ShapeCallbacks:
    """Shapes, layouts and layout attributes."""

    shape = of_first()

    def static_dim(self, children: list[Any]) -> tuple[int, bool]:
        return _size(children[0]), False

    def bounded_dim(self, children: list[Any]) -> tuple[int, bool]:
        return _size(children[0]), True

    unbounded_dim = constant((UNBOUNDED, True))

    def array(self, children: list[Any]) -> ArrayShape:
        layout = children[-1] if isinstance(children[-1], Layout) else None
        dims = [child for child in children[1:] if isinstance(child, tuple)]
        return _array(
            str(children[0]),
            tuple(size for size, _ in dims),
            layout,
            tuple(dynamic for _, dynamic in dims),
        )

    tuple_shape = of_all(TupleShape)

    def buffer(self, children: list[Any]) -> BufferShape:
        if children[0].dtype.is_special:
            raise BadValue(f"a buffer of {children[0].dtype.name} is not allowed")
        return BufferShape(children[0])

    def layout(self, children: list[Any]) -> Layout:
        minor_to_major = children[0] if isinstance(children[0], tuple) else ()
        fields = children[-1] if isinstance(children[-1], list) else []
        return Layout(minor_to_major, **dict(fields))

    def layout_attributes(self, children: list[Any]) -> list[tuple[str, Any]]:
        places = [_LAYOUT_ORDER.index(name) for name, _ in children]
        if any(left >= right for left, right in pairwise(places)):
            raise BadValue("layout attributes stand in the order D T L # * E S SC M, each once")
        return [(name, value) for name, value in children if name != "level_types"]

    level_types = constant(("level_types", None))  # accepted and dropped, as XLA does
    level_type = constant(None)
    tiles = tagged("tiles", of_all())

    def tile(self, children: list[Any]) -> tuple[int | None, ...]:
        if any(size is not None and size < 0 for size in children):
            raise BadValue("a tile has a negative size")
        return tuple(children)

    combined = constant(None)
    tail_alignment = tagged("tail_alignment", of_first(int_of))
    index_type = tagged("index_type", lambda _self, children: _unsigned(children[0]))
    pointer_type = tagged("pointer_type", lambda _self, children: _unsigned(children[0]))
    element_size = tagged("element_bits", of_first(int_of))
    memory_space = tagged("memory_space", of_first(int_of))
    metadata_prefix = tagged("metadata_prefix_bytes", of_first(int_of))
    splits = tagged("splits", of_all())
    split = of_pair(int_of)

    def physical_shape(self, _children: list[Any]) -> tuple[str, Any]:
        raise BadValue(
            "a physical shape is only legal for sparse layouts, which hloc does not have"
        )

    def parameter(self, children: list[Any]) -> Shape:
        name, found = children
        if isinstance(name, str) and is_other_token(name):
            raise BadValue(f"{name} is not a name; write %{name} or {name}:")
        return found  # type: ignore[no-any-return]

    parameters = constant(())  # checked and dropped, as XLA does
    shapes = of_all()


def array_of(text: str) -> ArrayShape:
    """Return the array `text` spells by the rule `array`, without layout attributes.

    Raises:
        BadValue: an unknown element type, a size beyond 63 bits, or a layout that does not match.
    """
    name, _, rest = text.partition("[")
    inside, _, layout = rest.partition("]")
    dims = [size.strip() for size in inside.split(",")] if inside.strip() else []
    order = layout.strip()[1:-1]
    return _array(
        name.strip(),
        tuple(
            UNBOUNDED if size == "?" else _size(size.removeprefix("<=").lstrip()) for size in dims
        ),
        Layout(tuple(int_of(number.strip()) for number in order.split(","))) if order else None,
        tuple(size[0] in "<?" for size in dims),
    )


def _array(
    name: str, dims: tuple[int, ...], layout: Layout | None, dynamic: tuple[bool, ...]
) -> ArrayShape:
    dtype = _dtype(name)
    if dtype.is_special and dims:
        raise BadValue(f"{dtype.name} has no dimensions")
    if layout is not None and len(layout.minor_to_major) != len(dims):
        raise BadValue(
            f"the layout orders {len(layout.minor_to_major)} dimensions, but the shape has "
            f"{len(dims)}"
        )
    if layout is not None and sorted(layout.minor_to_major) != list(range(len(dims))):
        order = ",".join(map(str, layout.minor_to_major))
        raise BadValue(
            f"the layout {{{order}}} does not name each dimension from 0 to {len(dims) - 1} once"
        )
    return ArrayShape(dtype, dims, layout, dynamic)  # which stores plain row-major as None


_LAYOUT_ORDER = (
    "level_types", "tiles", "tail_alignment", "index_type", "pointer_type", "element_bits",
    "memory_space", "splits", "metadata_prefix_bytes",
)  # fmt: skip


def _size(token: str) -> int:
    value = int(token) if len(token) <= 20 else _LARGEST + 1
    if value < 0:
        raise BadValue(f"dimension size {token} is negative")
    if value > _LARGEST:
        raise BadValue(f"dimension size {token[:40]} does not fit in 63 bits")
    return value


def _dtype(name: str) -> DType:
    found = DTYPES.get(name)
    if found is None:
        raise BadValue(f"unknown element type {name}{did_you_mean(name, DTYPES)}")
    return found


def _unsigned(token: str) -> DType:
    found = _dtype(str(token))
    if not found.is_unsigned:
        raise BadValue(f"{found.name} is not an unsigned integer type")
    return found
