"""The values of instructions, kept while a piece may read them; spilled to disk if large."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from hloc.dtypes import Array
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import post_order
from hloc.lazy_dataclass import dataclass
from hloc.report.inputs import arrays_of_parameters
from hloc.report.progress import Progress

MOST_BYTES = 1 << 30
"""Bytes of values kept in memory; beyond it the oldest are spilled to files."""

_FAR = 4
"""Levels of operands beyond those of a piece that its parameters may stand for: `copy-done`
includes its start, and a tuple its elements."""


@dataclass(frozen=True, slots=True)
class _File:
    """An array in a file."""

    path: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


class Values:
    """The arrays of instructions, one per leaf; a context manager that removes its files."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.most_bytes = most_bytes
        self.spilled = 0
        self._bytes = 0
        self._held: dict[Instruction, list[Array]] = {}
        self._files: dict[Instruction, list[_File]] = {}
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Values:
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def put(self, inst: Instruction, arrays: list[Array]) -> None:
        """Store the value of an instruction."""
        self._held[inst] = arrays
        self._bytes += _size(arrays)
        while self._bytes > self.most_bytes and len(self._held) > 1:
            self._spill(next(iter(self._held)))

    def get(self, inst: Instruction) -> list[Array]:
        """Return the arrays of an instruction; those in files are read each time."""
        held = self._held.get(inst)
        if held is not None:
            return held
        return [np.fromfile(f.path, f.dtype).reshape(f.shape) for f in self._files[inst]]

    def drop(self, inst: Instruction) -> None:
        """Forget an instruction that no piece reads any more."""
        self._bytes -= _size(self._held.pop(inst, []))
        for file in self._files.pop(inst, []):
            os.unlink(file.path)

    def _spill(self, inst: Instruction) -> None:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="hloc-isolate-")
        arrays, files = self._held.pop(inst), []
        self._bytes -= _size(arrays)
        for array in arrays:
            path = os.path.join(self._folder.name, str(self.spilled))
            self.spilled += 1
            array.tofile(path)
            files.append(_File(path, array.dtype, array.shape))
        self._files[inst] = files


def walk(
    module: Module, inputs: Sequence[Array], levels: int, values: Values, progress: Progress
) -> Iterator[Instruction]:
    """Yield the instructions of the entry computation, operands first.

    `values` has those of the parameters. The caller stores the values of the others, which are
    dropped after the last piece that may read them.

    Args:
        module: the module to walk.
        inputs: one array per leaf of its parameters.
        levels: of operands that pieces have.
        values: the store.
        progress: advanced for each instruction.
    """
    order = list(post_order(module.entry))
    ends: dict[int, list[Instruction]] = {}
    for inst, place in _last_uses(order, levels).items():
        ends.setdefault(place, []).append(inst)
    for parameter, arrays in arrays_of_parameters(module, inputs).items():
        values.put(parameter, arrays)
    progress.begin("instructions", len(order))
    for place, inst in enumerate(order):
        progress.done, progress.detail = place, f"%{inst.name}"
        yield inst
        for ended in ends.get(place, ()):
            values.drop(ended)


def _last_uses(order: Sequence[Instruction], levels: int) -> dict[Instruction, int]:
    """Return for each instruction the last position in `order` at which a piece may read its value.

    Args:
        order: operands first.
        levels: of operands that pieces have.
    """
    places = {inst: place for place, inst in enumerate(order)}
    reach = dict(places)
    for _ in range(levels + _FAR):
        before = reach
        reach = {
            inst: max((before[user] for user in inst.users if user in before), default=place)
            for inst, place in places.items()
        }
        reach = {inst: max(place, before[inst]) for inst, place in reach.items()}
    return reach


def _size(arrays: Sequence[Array]) -> int:
    return sum(array.nbytes for array in arrays)
