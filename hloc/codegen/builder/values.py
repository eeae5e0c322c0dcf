"""Values of generated code, and the representation of element types in registers and memory.

Registers: integers and `pred` as integers of their exact width, f32 and f64 as themselves, narrower
floats as their bits, complex numbers as two parts. Memory: one element per `dtype.storage_bytes`.
"""

from __future__ import annotations

from hloc.dtypes import DTYPES, F32, F64, DType, component_of
from hloc.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A value in a register; compared by identity.

    Attributes:
        text: name or constant, as an operand of LLVM text; the real part of a complex number.
        imag: the imaginary part of a complex number.
    """

    dtype: DType
    text: str
    imag: str = ""


class Lanes(Value):
    """One value per lane of a vector."""

    __slots__ = ()


class LaneSlot(Value):
    """A pointer to stack memory for one value per lane."""

    __slots__ = ()


class LaneSlots(Value):
    """A pointer to stack memory for vectors, which positions count."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False)
class LaneIndex(Value):
    """Indices that are `stride` apart from lane to lane; the value is that of lane 0."""

    stride: int = 1


VARYING = (Lanes, LaneIndex)
"""The values that differ from lane to lane."""


class NeedsScalars(Exception):
    """The code cannot be emitted for vectors; it must be emitted for scalars."""


def lane_stride(op: str, x: Value | int, y: Value | int) -> int:
    """Return the stride of `x op y` from lane to lane; one or both differ between lanes.

    Raises:
        NeedsScalars: the lanes are not evenly spaced.
    """
    if isinstance(x, Lanes) or isinstance(y, Lanes):
        raise NeedsScalars("positions that are computed")
    strides = [z.stride if isinstance(z, LaneIndex) else 0 for z in (x, y)]
    if op in ("add", "sub"):
        return strides[0] + strides[1] if op == "add" else strides[0] - strides[1]
    if op == "mul" and isinstance(y, int):
        return strides[0] * y
    raise NeedsScalars(op)


@dataclass(frozen=True, slots=True)
class Representation:
    """The LLVM types of one element type (of one part, for complex types).

    Attributes:
        register: type of a value in a register.
        memory: type that is loaded and stored.
        is_part: the register is narrower than memory, whose other bits are zero.
    """

    register: str
    memory: str
    is_part: bool
    bytes: int


def _representation(dtype: DType) -> Representation:
    part = component_of(dtype)
    size = part.storage_bytes
    if part is F32 or part is F64:
        name = "float" if part is F32 else "double"
        return Representation(name, name, False, size)
    memory = f"i{8 * size}"
    if part.bits == 8 * size:
        return Representation(memory, memory, False, size)
    return Representation(f"i{part.bits}", memory, True, size)


REPRESENTATIONS: dict[DType, Representation] = {
    dtype: _representation(dtype) for dtype in DTYPES.values() if not dtype.is_special
}
"""The representation of each element type; tokens and opaques have none."""


_NAMES = {"float": "f32", "double": "f64", "half": "f16"}


def vector_of(element: str, lanes: int) -> str:
    """Return LLVM's type of `lanes` elements, that of one element for 0."""
    return f"<{lanes} x {element}>" if lanes else element


def suffix_of(element: str, lanes: int) -> str:
    """Return the suffix of intrinsics of that type: `f32`, `v8i32`."""
    name = _NAMES.get(element, element)
    return f"v{lanes}{name}" if lanes else name


def is_narrow_float(dtype: DType) -> bool:
    """True for floats that are computed in f32: bf16, f16 and below."""
    return dtype.is_narrow_float
