"""The distribution of scans over threads."""

from __future__ import annotations

from hloc.codegen.gpu.helpers import WARP_THREADS
from hloc.codegen.gpu.kernel import BLOCK_THREADS
from hloc.codegen.kernels.scan import ScanProblem
from hloc.lazy_dataclass import dataclass

_EACH = 4
"""Contiguous elements per thread."""

_BLOCKS = 256
"""Blocks that keep a large GPU busy."""

_COLUMN_LENGTH = 128
"""Columns of at least this length are split."""

_MOST_CHUNKS = 1024


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """The distribution of a scan over threads.

    Attributes:
        threads: of the group that scans a chunk; 1 for columns.
        each: contiguous elements per thread in a tile of a group.
        length: elements of a chunk; the last may be shorter.
    """

    problem: ScanProblem
    threads: int
    each: int
    length: int

    @property
    def chunks(self) -> int:
        """Chunks of a row."""
        return -(-self.problem.size // self.length)

    @property
    def tile(self) -> int:
        """Elements that a group scans at a time."""
        return self.threads * self.each


def scan_plan(problem: ScanProblem) -> ScanPlan:
    """Return the distribution of scans."""
    size = problem.size
    if problem.by_columns:
        length = max(_COLUMN_LENGTH, -(-size // _MOST_CHUNKS))
        return ScanPlan(problem, 1, 1, min(length, size))
    each = _EACH if size > WARP_THREADS else 1
    threads = WARP_THREADS if size <= _EACH * WARP_THREADS else BLOCK_THREADS
    tile = threads * each
    chunks = max(1, min(_MOST_CHUNKS, size // (2 * tile), -(-_BLOCKS // problem.rows)))
    length = -(-size // (chunks * tile)) * tile
    return ScanPlan(problem, threads, each, length)
