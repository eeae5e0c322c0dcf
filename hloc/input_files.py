"""Reading files of bounded size."""

from __future__ import annotations

from typing import IO

from hloc.errors import HloError, printable, reason_of
from hloc.limits import current_limits, limit_note
from hloc.near_names import near_file_notes

_PIECE_BYTES = 1 << 20


def read_file(path: str) -> bytes:
    """Return the contents of the file `path`, one byte more than the limit if it is too large.

    Raises:
        HloError: the file cannot be read.
    """
    shown = printable(str(path))
    try:
        with open(path, "rb") as file:
            return read_bounded(file)
    except FileNotFoundError as fault:
        notes = near_file_notes(str(path))
        raise HloError(f"cannot read {shown}: {reason_of(fault)}", notes=notes) from None
    except OSError as fault:
        raise HloError(f"cannot read {shown}: {reason_of(fault)}") from None
    except ValueError as fault:  # a path with a NUL
        raise HloError(f"cannot read {shown}: {fault}") from None


def read_bounded(file: IO[bytes]) -> bytes:
    """Return the contents of `file`, one byte more than the limit if it is too large.

    A single read of that size would allocate all of it first.

    Raises:
        OSError: the file cannot be read.
    """
    pieces, left = [], current_limits().input_bytes + 1
    while left and (piece := file.read(min(left, _PIECE_BYTES))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def check_size(data: bytes, name: str) -> None:
    """Refuse more data than the limit; raises `HloError` with `name`."""
    most = current_limits().input_bytes
    if len(data) > most:
        raise HloError(f"{name} has more than {most} bytes", notes=(limit_note("input-bytes"),))
