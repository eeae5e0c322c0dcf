"""How a reduction is spread over the threads of a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from hloc.codegen.builder.index import loop_order
from hloc.codegen.gpu.helpers import WARP_THREADS
from hloc.codegen.gpu.kernel import BLOCK_THREADS
from hloc.codegen.kernels.context import array_leaves
from hloc.codegen.kernels.reduce import reduces_of
from hloc.ir.instruction import Instruction

_BLOCKS = 256
"""Blocks that keep a large GPU busy."""

_MOST_PARTS = 512
_LEAST_PER_THREAD = 8
"""Elements that one thread should add up before a reduction is worth another cut."""

_PER_THREAD = 8
"""Elements of a row that are worth a thread, which costs an exchange."""

_PER_COLUMN_THREAD = 4
_VECTOR_BYTES = 16
_SECTOR_BYTES = 32
_MOST_MEMBERS = 64
"""Fusions with at most this many instructions compute several neighbours per thread, unrolled."""


@dataclass(frozen=True, slots=True)
class ReducePlan:
    """How a reduction is spread over threads.

    Attributes:
        kept, reduced: dimensions of the inputs larger than 1, slowest first.
        rows: number of results; `length`: elements that go into each.
        by_columns: the fastest dimension is kept.
        threads: that share a row, a power of two; by columns, the rows of a block.
        columns: that a block takes, if it goes by columns.
        width: neighbouring elements that a thread takes at a time.
        parts: into which each reduction is cut for different blocks.
    """

    dims: tuple[int, ...]
    kept: tuple[int, ...]
    reduced: tuple[int, ...]
    rows: int
    length: int
    by_columns: bool
    threads: int
    columns: int
    width: int
    parts: int

    @property
    def part_length(self) -> int:
        """Elements of one part; the last may have fewer."""
        return _part_length(self.length, self.width, self.parts)

    @property
    def rows_per_block(self) -> int:
        """Rows that share a block, where it does not go by columns."""
        return max(BLOCK_THREADS // self.threads, 1) if self.threads <= WARP_THREADS else 1

    @property
    def busy(self) -> int:
        """Threads of a row, or rows of a block by columns, that have an element to begin with."""
        return min(-(-self.part_length // self.width), self.threads)


def reduce_plan(inst: Instruction, root: Instruction) -> ReducePlan:
    """Return how `inst` is spread, a fusion of reductions with the loops of `root` or one alone."""
    shape = root.operands[0].array
    reduced_dims = set(root.attributes.dimensions)
    order = loop_order(shape)
    kept = tuple(d for d in order if d not in reduced_dims)
    reduced = tuple(d for d in order if d in reduced_dims)
    rows = prod(shape.dims[d] for d in kept)
    length = prod(shape.dims[d] for d in reduced)
    by_columns = bool(kept) and bool(reduced) and order[-1] == kept[-1]
    if by_columns:
        columns, threads = _block_by_columns(rows, length)
        width, blocks, in_part = 1, -(-rows // columns), threads
    else:
        width = _width(inst, shape.dims[reduced[-1]] if reduced else 1)
        columns, threads, blocks, in_part = 1, BLOCK_THREADS, rows, BLOCK_THREADS * width
    most = length // (in_part * _LEAST_PER_THREAD // width)
    parts = max(1, min(_MOST_PARTS, most, -(-_BLOCKS // max(blocks, 1))))
    while parts > 1 and length - (parts - 1) * _part_length(length, width, parts) < in_part:
        parts -= 1  # all threads have something to add, in the last part too
    if not by_columns:
        size = _part_length(length, width, parts)
        threads = _threads_of_row(size, width, shape.dtype.storage_bytes)
    return ReducePlan(
        shape.dims, kept, reduced, rows, length, by_columns, threads, columns, width, parts
    )


def _part_length(length: int, width: int, parts: int) -> int:
    return -(-length // (parts * width)) * width


def _power_of_two(count: int) -> int:
    """Return the smallest power of two that is at least `count`."""
    return 1 << max(count - 1, 0).bit_length()


def _block_by_columns(rows: int, length: int) -> tuple[int, int]:
    """Return columns and rows of a block: few columns leave room for more rows, and the reverse."""
    columns = min(WARP_THREADS, _power_of_two(rows))
    while columns < min(BLOCK_THREADS, rows) and length < _PER_COLUMN_THREAD * (
        BLOCK_THREADS // columns
    ):
        columns *= 2
    return columns, min(BLOCK_THREADS // columns, _power_of_two(length))


def _width(inst: Instruction, size: int) -> int:
    """Return how many neighbours fit 16 bytes of the widest input, and divide `size`."""
    members = inst.called[0].instructions if inst.opcode.name == "fusion" else (inst,)
    if len(members) > _MOST_MEMBERS:
        return 1
    elements = reduces_of(inst)[0].operands[0].array.elements
    leaves = [leaf for operand in inst.operands for leaf in array_leaves(operand.shape)]
    read = [leaf.dtype.storage_bytes for leaf in leaves if leaf.elements == elements]
    width = max(min(_VECTOR_BYTES // max(read, default=4), 8), 1)
    while size % width:
        width //= 2
    return width


def _threads_of_row(length: int, width: int, element_bytes: int) -> int:
    """Return how many threads share a row, so that each has some elements and none a sector."""
    enough = _power_of_two(-(-length // max(_PER_THREAD, width)))
    sector = max(_SECTOR_BYTES // (width * element_bytes), 1)
    most = _power_of_two(-(-length // width))
    return min(max(enough, sector), most, BLOCK_THREADS)
