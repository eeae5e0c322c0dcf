"""What `dump.py` has written of one program: its texts and arrays."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np


@dataclass(frozen=True)
class Dumped:
    """One program in a folder of dumps.

    Attributes:
        folder: of one partitioner, e.g. `/tmp/sharded/shardy`.
    """

    folder: Path
    name: str

    @cached_property
    def row(self) -> dict[str, Any]:
        """What the index says."""
        row: dict[str, Any] = index(self.folder)[self.name]
        return row

    @property
    def annotated(self) -> str:
        return (self.folder / f"{self.name}.hlo").read_text()

    @property
    def partitioned(self) -> str:
        return (self.folder / f"{self.name}.partitioned.hlo").read_text()

    @property
    def wholes(self) -> list[Any]:
        """The arguments, whole."""
        return [self._array(f"arg{i}", kind) for i, kind in enumerate(self.row["arguments"])]

    @property
    def parts(self) -> list[Any]:
        """The arguments as `[argument][device]`."""
        return [self._array(f"arg{i}.parts", kind) for i, kind in enumerate(self.row["arguments"])]

    @property
    def results(self) -> list[Any]:
        """XLA's results, whole."""
        return [self._array(f"out{i}", kind) for i, kind in enumerate(self.row["results"])]

    def result_parts(self, shapes: list[tuple[int, ...]]) -> list[Any]:
        """Return XLA's results as `[result][device]`.

        Where XLA could not run the program the parts are those that `shapes`, of one device, imply.
        """
        found = []
        for i, kind in enumerate(self.row["results"]):
            if f"out{i}.parts" in self._arrays:
                found.append(self._array(f"out{i}.parts", kind))
                continue
            whole = self._array(f"out{i}", kind)
            count = self.row["devices"]
            is_whole = whole.shape == shapes[i]
            found.append(np.stack([whole] * count if is_whole else np.split(whole, count)))
        return found

    @cached_property
    def _arrays(self) -> Any:
        return np.load(self.folder / f"{self.name}.npz")

    def _array(self, key: str, kind: str) -> Any:
        return self._arrays[key].view(np.dtype(getattr(ml_dtypes, kind, kind)))


def index(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the rows of all programs in a folder, by name."""
    rows: dict[str, dict[str, Any]] = json.loads((folder / "index.json").read_text())
    return rows


def can_run(row: dict[str, Any]) -> bool:
    """Return whether there are results to compare with."""
    return "results" in row
