"""Columns that are computed in strips, which threads share in pieces."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.kernels.context import KernelContext

STRIP = 1024
"""Most columns of a strip: their accumulators stay in the first-level cache."""

COLUMN_PIECE = 64
"""Granularity of the columns that threads share, a multiple of any vector."""


def column_pieces(size: int) -> int:
    """Return the extent of a kernel whose outermost loop are `shared_strips`."""
    return -(-size // COLUMN_PIECE)


@contextmanager
def shared_strips(k: KernelContext, size: int) -> Iterator[tuple[IndexValue, IndexValue]]:
    """Run the region for strips of this thread's columns; yields the first, and their number."""
    if size <= COLUMN_PIECE:
        yield 0, size
        return
    end = k.math.minimum(k.math.mul(k.end, COLUMN_PIECE), size)
    with k.body.loop(k.math.mul(k.begin, COLUMN_PIECE), end, STRIP) as first:
        yield first, k.math.minimum(k.math.sub(end, first), STRIP)
