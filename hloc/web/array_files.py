"""Array files that the page sends for a run, and the file of results that it receives."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from typing import Any, TypeAlias

import numpy as np

from hloc.errors import HloError, printable, reason_of
from hloc.report.inputs import write_archive
from hloc.shapes import ArrayShape
from hloc.web.limits import ARRAY_BYTES

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

_NAME = re.compile(r"\w[\w.-]{0,99}\.np[yz]", re.ASCII)


@contextmanager
def given_file(name: str, letters: str) -> Iterator[str]:
    """Put a file into the folder of this process while the context lasts; returns its name.

    Args:
        name: its name, without a folder; "" for no file.
        letters: its bytes in base64.

    Raises:
        HloError: the name is none of an array file, or the file is too large.
    """
    if not name:
        yield ""
        return
    data = _checked(name, letters)
    try:
        with open(name, "xb") as file:  # never overwrites a file
            file.write(data)
    except OSError as fault:
        raise HloError(f"cannot keep {name}: {reason_of(fault)}") from None
    try:
        yield name
    finally:
        os.unlink(name)


def _checked(name: str, letters: str) -> bytes:
    if not _NAME.fullmatch(name):
        raise HloError(
            f"{printable(name[:60])} is no name of an array file",
            notes=("expected letters, digits, . _ and -, and .npz or .npy at the end",),
        )
    try:
        data = base64.b64decode(letters, validate=True)
    except ValueError:
        raise HloError(f"{name} did not arrive as it was sent") from None
    if len(data) > ARRAY_BYTES:
        raise HloError(f"{name} has more than {ARRAY_BYTES >> 20} MiB")
    return data


def results_file(arrays: Sequence[Array], shapes: Sequence[ArrayShape]) -> str:
    """Return an .npz of the results of a run in base64, "" if they are too large for the page."""
    if sum(array.nbytes for array in arrays) > ARRAY_BYTES:
        return ""
    file = BytesIO()
    write_archive(file, "out", arrays, shapes)
    return base64.b64encode(file.getvalue()).decode()
