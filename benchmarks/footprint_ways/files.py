"""Arguments and results of the Python ways: `arg0.npy` ... and `out0.npy` ... in one folder."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


def load(folder: str) -> list[Array]:
    """Return the arguments; bf16 are the bits that NumPy has for it."""
    paths = sorted(Path(folder).glob("arg*.npy"), key=lambda path: int(path.stem[3:]))
    return [np.load(path) for path in paths]


def save(folder: str, results: Sequence[Array]) -> None:
    for i, result in enumerate(results):
        np.save(Path(folder, f"out{i}.npy"), result)
