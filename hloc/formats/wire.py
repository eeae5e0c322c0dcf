"""Wire format of protocol buffers: a check before parsing that locates errors.

The protobuf runtime reports no location, and may allocate hundreds of bytes for two. This walk
visits every message, sums the memory cost, and reports the path of an error.
"""

from __future__ import annotations

from collections.abc import Iterator

from hloc.errors import HloError
from hloc.formats.proto_messages import FieldRow, messages

MAX_DEPTH = 60
"""Maximum nesting of messages; the runtime itself stops at 100."""

MAX_COST = 1 << 30
"""Limit on the memory of the message objects of one file."""

MAX_FIELDS = 1 << 25
"""Limit on the number of fields of one file, known or not: half a minute of this walk."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_WIRE_OF = {"float": _FIXED32, "double": _FIXED64, "bytes": _BYTES}


class WireFault(Exception):
    """The bytes are not a message; `path` says where, once the walk has returned from there."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.path = ""

    def within(self, outer: str) -> None:
        """Record that the error is inside `outer`."""
        self.path = f"{outer}.{self.path}" if self.path else outer


def fields(
    data: bytes, start: int, end: int, *, cut: bool = False
) -> Iterator[tuple[int, int, int, int]]:
    """Yield number, wire type, start and end of the value of every field in `data[start:end]`.

    With `cut` the last value may end too early, as in a truncated file.

    Raises:
        WireFault: the bytes are not fields of a message.
    """
    at = start
    while at < end:
        tag = data[at]  # almost always one byte
        tag, at = (tag, at + 1) if tag < 0x80 else _varint(data, at, end)
        number, wire = tag >> 3, tag & 7
        if not 0 < number < 1 << 29:
            raise WireFault(f"field number {number} does not exist")
        if wire == _BYTES:
            size, at = _varint(data, at, end)
            stop = at + size
        elif wire == _VARINT:
            value_at = at
            _, stop = _varint(data, at, end)
            at = value_at
        elif wire in (_FIXED32, _FIXED64):
            stop = at + (4 if wire == _FIXED32 else 8)
        else:
            raise WireFault(f"field {number} has wire type {wire}, which is not used")
        if stop > end and cut:
            stop = end
        if stop > end:
            raise WireFault(f"field {number} ends {stop - end} bytes behind its message")
        yield number, wire, at, stop
        at = stop


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise WireFault("a number has more than 64 bits")
    raise WireFault("the message ends inside a number")


def check(data: bytes, message: str, name: str) -> None:
    """Check that `data` is a message of type `message`, within the limits on nesting and cost.

    Raises:
        HloError: it is not; the error has the path, such as `computations[2].instructions[0]`.
    """
    try:
        _Walk(data).message(message, 0, len(data), 0)
    except WireFault as fault:
        where = f" in {fault.path[:200]}" if fault.path else ""
        raise HloError(f"{name} is a damaged protocol buffer: {fault}{where}") from None


class _Walk:
    """A walk over all messages of one file; recursion goes no deeper than `MAX_DEPTH`."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.cost = 0
        self.fields = 0

    def message(self, kind: str, start: int, end: int, depth: int) -> None:
        """Check the message of type `kind` in `data[start:end]`."""
        rows = messages()[kind]
        self.cost += 64 + 8 * len(rows)
        if self.cost > MAX_COST:
            raise WireFault(f"the messages take more than {MAX_COST >> 30} GiB of memory")
        if depth > MAX_DEPTH:
            raise WireFault(f"a message is nested more than {MAX_DEPTH} deep")
        counts: dict[int, int] = {}
        for number, wire, at, stop in fields(self.data, start, end):
            self.fields += 1
            if self.fields > MAX_FIELDS:
                raise WireFault(f"there are more than {MAX_FIELDS:,} fields")
            row = rows.get(number)
            if row is None:
                continue
            _check_wire(row, wire)
            if not row.is_message:
                continue
            count = counts[number] = counts.get(number, -1) + 1
            try:
                self.message(row.type, at, stop, depth + 1)
            except WireFault as fault:
                fault.within(f"{row.name}[{count}]" if row.repeated else row.name)
                raise


def _check_wire(row: FieldRow, wire: int) -> None:
    expected = _BYTES if row.is_message else _WIRE_OF.get(row.type, _VARINT)
    if wire != expected and not (row.repeated and wire == _BYTES):
        raise WireFault(f"{row.name} has wire type {wire}, not {expected}")
