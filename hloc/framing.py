"""Messages over a pipe to another process: a value as JSON, then blocks of raw bytes.

Reading one never runs code, whatever the other side sends.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import IO, Any, TypeAlias

Block: TypeAlias = bytes | bytearray | memoryview

_LENGTH = struct.Struct("<Q")


def write_message(stream: IO[bytes], value: object, blocks: Sequence[Block] = ()) -> None:
    """Write `value`, which JSON can represent, and the bytes of `blocks`."""
    text = json.dumps([value, [memoryview(block).nbytes for block in blocks]]).encode()
    stream.write(_LENGTH.pack(len(text)) + text)
    for block in blocks:
        stream.write(block)
    stream.flush()


def read_message(stream: IO[bytes]) -> tuple[Any, list[bytearray]]:
    """Return the value and the blocks of the next message.

    Raises:
        EOFError: the other side closed the pipe, before a message or within it.
        ValueError: the bytes are not a message.
    """
    (length,) = _LENGTH.unpack(_exactly(stream, _LENGTH.size))
    value, sizes = json.loads(_exactly(stream, length))
    return value, [_exactly(stream, size) for size in sizes]


def _exactly(stream: IO[bytes], size: int) -> bytearray:
    data = bytearray(size)
    if stream.readinto(data) != size:  # type: ignore[attr-defined]  # IO lacks it
        raise EOFError("the other side has left")
    return data
