"""How cumulative sums and the like are spread over threads."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from hloc.analysis.cumulative import Cumulative
from hloc.codegen.builder.index import loop_order
from hloc.codegen.gpu.helpers import WARP_THREADS
from hloc.codegen.gpu.kernel import BLOCK_THREADS
from hloc.ir.instruction import Instruction

_EACH = 4
"""Neighbours that one thread scans on its own."""

_NARROW = 16
"""Size of the fastest dimension from which columns are scanned by a thread each."""

_BLOCKS = 256
"""Blocks that keep a large GPU busy."""

_COLUMN_LENGTH = 128
"""Steps of a column from which it is cut."""

_MOST_CHUNKS = 1024


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """How a scan is spread over threads.

    Attributes:
        dims: of the operand; `others` are those not scanned, slowest first.
        rows: number of scans, each of `size` elements.
        by_columns: a thread has a whole chunk; else a group of `threads` has.
        each: elements of a thread, next to each other, in one tile of a group.
        length: elements of a chunk; the last may be shorter.
    """

    form: Cumulative
    dims: tuple[int, ...]
    others: tuple[int, ...]
    rows: int
    size: int
    by_columns: bool
    threads: int
    each: int
    length: int

    @property
    def chunks(self) -> int:
        """Chunks of a row."""
        return -(-self.size // self.length)

    @property
    def tile(self) -> int:
        """Elements that a group scans at a time."""
        return self.threads * self.each

    @property
    def results(self) -> tuple[int, int]:
        """The first step of the scan that is a result, and the one behind the last."""
        f = self.form
        return (self.size - f.limit, self.size - f.start) if f.reverse else (f.start, f.limit)


def scan_plan(root: Instruction, form: Cumulative) -> ScanPlan:
    """Return how a scan of a form is spread."""
    source = root.operands[0].array
    order = loop_order(source)
    others = tuple(dim for dim in order if dim != form.dim)
    size, rows = source.dims[form.dim], prod(source.dims[dim] for dim in others)
    by_columns = bool(others) and order[-1] != form.dim and source.dims[order[-1]] >= _NARROW
    if by_columns:
        length = max(_COLUMN_LENGTH, -(-size // _MOST_CHUNKS))
        return ScanPlan(form, source.dims, others, rows, size, True, 1, 1, min(length, size))
    each = _EACH if size > WARP_THREADS else 1
    threads = WARP_THREADS if size <= _EACH * WARP_THREADS else BLOCK_THREADS
    tile = threads * each
    chunks = max(1, min(_MOST_CHUNKS, size // (2 * tile), -(-_BLOCKS // rows)))
    length = -(-size // (chunks * tile)) * tile
    return ScanPlan(form, source.dims, others, rows, size, False, threads, each, length)
