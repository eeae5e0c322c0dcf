"""The messages between the session and its child process."""

from __future__ import annotations

import pickle
import struct
from typing import IO, Any

import numpy as np

from hloc.lazy_dataclass import dataclass
from hloc.options import CompileOptions

Array = np.ndarray[Any, np.dtype[Any]]

UNKNOWN = "unknown program"
"""The fault of a request without a text for a program that the child does not keep any more."""

_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class Request:
    """What the child is asked for.

    Attributes:
        key: names the program; the child keeps programs by key.
        text: HLO text, None if the child has the program already.
        options: of the compilation, which runs no passes but those of the target.
        inputs: one array per parameter leaf; None to run nothing.
        seconds: repeat the run for so long.
        stage: a form of the program that is wanted, "" for none.
        by_xla: let XLA compile and run it.
        plugins: files to load first, with the time of their last change: they may register targets
            of custom calls.
        devices: on how many to run; inputs and outputs of several are stacked.
    """

    key: str
    text: str | None
    options: CompileOptions
    inputs: tuple[Array, ...] | None = None
    seconds: float = 0.0
    stage: str = ""
    by_xla: bool = False
    plugins: tuple[tuple[str, float], ...] = ()
    devices: int = 1


@dataclass(frozen=True, slots=True)
class Answer:
    """What came out; `fault` is a message if it could not be done, `seconds` those of each run."""

    fault: str = ""
    notes: tuple[str, ...] = ()
    outputs: tuple[Array, ...] = ()
    seconds: tuple[float, ...] = ()
    form: str | bytes = ""


def write_message(stream: IO[bytes], message: object) -> None:
    """Write one message."""
    data = pickle.dumps(message, protocol=5)
    stream.write(_LENGTH.pack(len(data)))
    stream.write(data)
    stream.flush()


def read_message(stream: IO[bytes]) -> Any:
    """Read one message, None at the end of the stream."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (size,) = _LENGTH.unpack(head)
    data = stream.read(size)
    return pickle.loads(data) if len(data) == size else None
