"""The parameters and results of a serialized HloModuleProto, without parsing the module.

A program from the cache needs no more of it. hloc's manifest omits tokens, which are ordinary
arguments and results for JAX.
"""

from __future__ import annotations

from collections.abc import Iterator

from hloc.formats.wire import fields
from hloc.lazy_dataclass import dataclass
from hloc.pjrt.element_types import number_of_primitive

_NAME, _HOST_PROGRAM_SHAPE = 1, 4  # of HloModuleProto
_PARAMETERS, _RESULT = 1, 2  # of ProgramShapeProto
_ELEMENT_TYPE, _DIMENSIONS, _TUPLE_SHAPES, _LAYOUT = 2, 3, 4, 5  # of ShapeProto
_MINOR_TO_MAJOR = 1  # of LayoutProto
_COMPUTATIONS, _INSTRUCTIONS = 3, 2
_TUPLE = 13


@dataclass(frozen=True, slots=True)
class Leaf:
    """An array or token: its type in the C API, its dimensions, and their order in memory.

    Attributes:
        minor_to_major: the order of dimensions; () for row-major.
    """

    type: int
    dims: tuple[int, ...]
    minor_to_major: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Boundary:
    """The leaves of a program.

    Attributes:
        program_shape: the ProgramShapeProto.
        instructions: their number in the module.
    """

    name: str
    parameters: tuple[Leaf, ...]
    results: tuple[Leaf, ...]
    program_shape: bytes
    instructions: int


def boundary_of(data: bytes) -> Boundary:
    """Return the boundary of a serialized HloModuleProto."""
    name, shape, instructions = "", b"", 0
    for number, _, start, end in fields(data, 0, len(data)):
        if number == _NAME:
            name = data[start:end].decode("utf-8", "replace")
        elif number == _HOST_PROGRAM_SHAPE:
            shape = data[start:end]
        elif number == _COMPUTATIONS:
            inner = fields(data, start, end)
            instructions += sum(field == _INSTRUCTIONS for field, *_ in inner)
    parameters: list[Leaf] = []
    results: list[Leaf] = []
    for number, _, start, end in fields(shape, 0, len(shape)):
        if number == _PARAMETERS:
            parameters += _leaves(shape[start:end])
        elif number == _RESULT:
            results += _leaves(shape[start:end])
    return Boundary(name, tuple(parameters), tuple(results), shape, instructions)


def _leaves(shape: bytes) -> Iterator[Leaf]:
    primitive, layout = 0, b""
    parts: list[bytes] = []
    for number, _, start, end in fields(shape, 0, len(shape)):
        if number == _ELEMENT_TYPE:
            primitive = varint(shape, start)[0]
        elif number == _LAYOUT:
            layout = shape[start:end]
        elif number == _TUPLE_SHAPES:
            parts.append(shape[start:end])
    if primitive != _TUPLE:
        dims = repeated_numbers(shape, _DIMENSIONS)
        order = repeated_numbers(layout, _MINOR_TO_MAJOR)
        yield Leaf(number_of_primitive(primitive), dims, order)
    for part in parts:
        yield from _leaves(part)


def repeated_numbers(message: bytes, wanted: int) -> tuple[int, ...]:
    """Return the numbers of a repeated field, packed or not."""
    result = []
    for number, wire, start, end in fields(message, 0, len(message)):
        while number == wanted and start < end:
            value, start = varint(message, start)
            result.append(value)
            if wire != 2:
                break
    return tuple(result)


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the varint at `at`, and its end."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def message_field(number: int, data: bytes) -> bytes:
    """Return a length-delimited field of a message with content `data`."""
    size, head = len(data), bytearray([number << 3 | 2])
    while size > 0x7F:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*head, size]) + data
