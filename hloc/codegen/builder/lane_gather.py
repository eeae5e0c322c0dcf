"""Gathering loads and scattering stores: lanes at computed offsets."""

from __future__ import annotations

from hloc.codegen.builder.lane_arithmetic import LaneArithmetic
from hloc.codegen.builder.values import REPRESENTATIONS, Lanes, Value, suffix_of
from hloc.dtypes import DType, component_of


def gather(
    b: LaneArithmetic, pointer: Value, dtype: DType, offsets: Lanes, mask: str = ""
) -> Lanes:
    """Return the elements at `offsets` from `pointer`, one per lane.

    Args:
        b: writes the code.
        pointer: to the first element.
        dtype: of the elements.
        offsets: in elements; they may be negative.
        mask: of the lanes that are read; the others are undefined. "" for all.
    """
    part = component_of(dtype)
    kind, pointers, name = _names(b, "gather", part)
    size, every = str(REPRESENTATIONS[part].bytes), (b.vector_type("i1"), mask or "splat (i1 true)")
    parts = [
        b.fn.call(kind, name, (pointers, places), ("i32", size), every, (kind, "poison"))
        for places in _places(b, pointer, dtype, offsets)
    ]
    return Lanes(dtype, *parts)


def scatter(b: LaneArithmetic, pointer: Value, value: Value, offsets: Lanes, mask: Value) -> None:
    """Write the lanes in which `mask` holds to `offsets` from `pointer`."""
    dtype, part = value.dtype, component_of(value.dtype)
    kind, pointers, name = _names(b, "scatter", part)
    size = "i32", str(REPRESENTATIONS[part].bytes)
    parts = [b.real(value), b.imag(value)] if dtype.is_complex else [value]
    for number, places in zip(parts, _places(b, pointer, dtype, offsets), strict=True):
        given = (kind, b.vector(number)), (pointers, places)
        b.fn.call("void", name, *given, size, (b.vector_type("i1"), b.vector(mask)))


def _names(b: LaneArithmetic, what: str, dtype: DType) -> tuple[str, str, str]:
    """Return the types of the lanes and of pointers to them, and the name of the intrinsic."""
    register = REPRESENTATIONS[dtype].register
    suffix = f"{suffix_of(register, b.lanes)}.{suffix_of('p0', b.lanes)}"
    return b.kind(dtype), b.vector_type("ptr"), f"@llvm.masked.{what}.{suffix}"


def _places(b: LaneArithmetic, pointer: Value, dtype: DType, offsets: Lanes) -> list[str]:
    """Return vectors of addresses: of the elements, or of both parts of complex ones."""
    memory = REPRESENTATIONS[dtype].memory
    index = f"ptr {pointer.text}, {b.kind(offsets.dtype)} {offsets.text}"
    if not dtype.is_complex:
        return [b.fn.value(f"getelementptr {memory}, {index}")]
    return [b.fn.value(f"getelementptr [2 x {memory}], {index}, i64 {part}") for part in (0, 1)]
