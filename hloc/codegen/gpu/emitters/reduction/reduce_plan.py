"""The distribution of a reduction over the threads of a GPU."""

from __future__ import annotations

from hloc.codegen.gpu.helpers import WARP_THREADS
from hloc.codegen.gpu.kernel import BLOCK_THREADS
from hloc.codegen.kernels.reduce_problem import ReduceProblem, reduce_problem
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass

_BLOCKS = 256
"""Blocks that keep a large GPU busy."""

_MOST_PARTS = 512
_LEAST_PER_THREAD = 8
"""Fewest elements per thread for which splitting a reduction further pays."""

_PER_THREAD = 8
"""Fewest elements of a row per thread, since each doubling of threads costs a shuffle."""

_PER_COLUMN_THREAD = 4
_VECTOR_BYTES = 16
_SECTOR_BYTES = 32
_MOST_MEMBERS = 64
"""Fusions of at most this many instructions compute several contiguous elements per thread."""


@dataclass(frozen=True, slots=True)
class ReducePlan:
    """The distribution of a reduction over threads.

    Attributes:
        threads: threads per row, a power of two; for columns, the rows of a block.
        columns: columns of a block, for column reductions.
        width: contiguous elements per load of a thread.
        parts: parts of each reduction, for different blocks.
    """

    problem: ReduceProblem
    threads: int
    columns: int
    width: int
    parts: int

    @property
    def rows(self) -> int:
        """Elements of each result."""
        return self.problem.rows

    @property
    def part_length(self) -> int:
        """Elements of one part; the last may have fewer."""
        return _part_length(self.problem.addends, self.width, self.parts)

    @property
    def rows_per_block(self) -> int:
        """Rows that share a block, where it does not go by columns."""
        return max(BLOCK_THREADS // self.threads, 1) if self.threads <= WARP_THREADS else 1

    @property
    def busy(self) -> int:
        """Threads of a row, or rows of a block by columns, that have an element to begin with."""
        return min(-(-self.part_length // self.width), self.threads)


def reduce_plan(inst: Instruction) -> ReducePlan | None:
    """Return how `inst` is spread, a reduction or a fusion of several; None for anything else."""
    problem = reduce_problem(inst)
    if problem is None:
        return None
    rows, length = problem.rows, problem.addends
    if problem.by_columns:
        columns, threads = _block_by_columns(rows, length)
        width, blocks, in_part = 1, -(-rows // columns), threads
    else:
        width = _width(inst, problem)
        columns, threads, blocks, in_part = 1, BLOCK_THREADS, rows, BLOCK_THREADS * width
    most = length // (in_part * _LEAST_PER_THREAD // width)
    parts = max(1, min(_MOST_PARTS, most, -(-_BLOCKS // max(blocks, 1))))
    while parts > 1 and length - (parts - 1) * _part_length(length, width, parts) < in_part:
        parts -= 1  # all threads have something to add, in the last part too
    if not problem.by_columns:
        size = _part_length(length, width, parts)
        element = problem.roots[0].operands[0].array.dtype.storage_bytes
        threads = _threads_of_row(size, width, element)
    return ReducePlan(problem, threads, columns, width, parts)


def _part_length(length: int, width: int, parts: int) -> int:
    return -(-length // (parts * width)) * width


def power_of_two(count: int) -> int:
    """Return the smallest power of two that is at least `count`."""
    return 1 << max(count - 1, 0).bit_length()


def _block_by_columns(rows: int, length: int) -> tuple[int, int]:
    """Return columns and rows of a block: few columns leave room for more rows, and the reverse."""
    columns = min(WARP_THREADS, power_of_two(rows))
    while columns < min(BLOCK_THREADS, rows) and length < _PER_COLUMN_THREAD * (
        BLOCK_THREADS // columns
    ):
        columns *= 2
    return columns, min(BLOCK_THREADS // columns, power_of_two(length))


def _width(inst: Instruction, problem: ReduceProblem) -> int:
    """Return the elements per load: 16 bytes of the widest input, a divisor of the fastest size."""
    members = inst.called[0].instructions if inst.opcode.name == "fusion" else (inst,)
    if len(members) > _MOST_MEMBERS:
        return 1
    elements = problem.rows * problem.addends
    size = problem.dims[problem.reduced[-1]] if problem.reduced else 1
    leaves = inst.operand_arrays
    read = [leaf.dtype.storage_bytes for leaf in leaves if leaf.elements == elements]
    width = max(min(_VECTOR_BYTES // max(read, default=4), 8), 1)
    while size % width:
        width //= 2
    return width


def _threads_of_row(length: int, width: int, element_bytes: int) -> int:
    """Return how many threads share a row, so that each has some elements and none a sector."""
    enough = power_of_two(-(-length // max(_PER_THREAD, width)))
    sector = max(_SECTOR_BYTES // (width * element_bytes), 1)
    most = power_of_two(-(-length // width))
    return min(max(enough, sector), most, BLOCK_THREADS)
