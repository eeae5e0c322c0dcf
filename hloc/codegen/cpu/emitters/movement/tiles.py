"""Tiled loops, for arrays that are read along one dimension and written along another.

A cache line that is read for one element is reused by the next rows before it is evicted. With
lanes, a tile of such an array is copied first, by vectors along its fastest dimension, and the rows
of the tile are computed from the copy: every line is read once, even if the stride of rows is a
power of two, where lines map to the same cache sets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import LaneIndex
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.lanes import Lanes, lanes_of
from hloc.dtypes import S64
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.shapes import ArrayShape

_ROWS, _COLUMNS = 16, 8
"""Elements of a tile along the fastest dimension of the operand, and of the result.

Measured for a transpose of f32[2048,2048]: 45 ms without tiles, 16 with 16x16, 10 with 16x8.
"""

_SMALLEST = 64
"""Fewest elements of either dimension for which tiles pay."""

_SIDE, _SIDE_BYTES = 64, 256
"""Most rows and columns of a tile that is copied, and most bytes of one of its rows.

Each row of a tile is on another page. `exp(a) * b.T` of f32[1024,1024] takes 4.8 ms with 16 rows
and columns, 2.4 with 32, and 1.5 with 64.
"""

Ranges = dict[int, tuple[IndexValue, IndexValue]]


@dataclass(frozen=True, slots=True)
class Across:
    """The operands that a loop reads with a stride.

    Attributes:
        dim: the fastest dimension of these arrays.
        members: instructions with the dimensions of the result that read them.
    """

    dim: int
    members: tuple[Instruction, ...]


def read_across(inst: Instruction, shape: ArrayShape, order: Sequence[int]) -> Across | None:
    """Return the operands of `inst` whose fastest dimension is not that of the result, or None.

    Args:
        inst: a fusion or a single instruction.
        shape: of its result.
        order: dimensions of the result, slowest first.
    """
    found: dict[int, dict[Instruction, None]] = {}
    members = inst.called[0].instructions if inst.opcode.name == "fusion" else (inst,)
    for member in members:
        for read, dim in strided_reads(member, shape):
            sizes = shape.dims[dim], shape.dims[order[-1]]
            if dim != order[-1] and min(sizes) >= _SMALLEST:
                found.setdefault(dim, {})[read] = None
    if not found:
        return None
    dim = next(iter(found))
    return Across(dim, tuple(found[dim]))


def strided_reads(member: Instruction, shape: ArrayShape) -> Iterator[tuple[Instruction, int]]:
    """Yield the operands that `member` reads at its own index, and their fastest dimension."""
    if not isinstance(member.shape, ArrayShape) or member.array.dims != shape.dims:
        return
    if member.is_a("transpose"):
        minor = _minor(member.operands[0].array)
        if minor is not None:
            yield member, member.attributes.dimensions.index(minor)
    elif member.opcode.elementwise:
        for operand in member.operands:
            minor = _minor(operand.array)
            is_read = operand.opcode.elemental is None and not operand.is_a("broadcast", "iota")
            if minor is not None and is_read:
                yield operand, minor


def _minor(shape: ArrayShape) -> int | None:
    return next((dim for dim in shape.minor_to_major if shape.dims[dim] != 1), None)


@contextmanager
def tiled_loops(
    k: KernelContext,
    shape: ArrayShape,
    order: Sequence[int],
    first_range: tuple[IndexValue, IndexValue],
    across: Across,
) -> Iterator[list[IndexValue]]:
    """Run the region for every index, in tiles of the dimension read and the one written fastest.

    Args:
        k: the kernel.
        shape: of the result.
        order: its dimensions, slowest first.
        first_range: the range of the slowest one.
        across: the result of `read_across`.
    """
    ranges: Ranges = {d: (0, shape.dims[d]) for d in order}
    ranges[order[0]] = first_range
    read, written = across.dim, order[-1]
    index: list[IndexValue] = [0] * len(shape.dims)
    lanes = lanes_of(k)
    widest = max(member.array.dtype.storage_bytes for member in across.members)
    side = min(_SIDE, _SIDE_BYTES // widest)
    # The last tile computes elements again, so operands must not be overwritten.
    fits = shape.dims[written] % side == 0 or not any(a is not None for a in k.aliased)
    with ExitStack() as stack:
        for dim in order:
            if dim not in (read, written):
                index[dim] = stack.enter_context(k.body.loop(*ranges[dim]))
        if lanes is not None and fits and side % lanes.count == 0:
            stack.enter_context(_copied_tiles(lanes, shape, across, ranges, index, written, side))
        else:
            k.is_final = False
            stack.enter_context(_plain_tiles(k, ranges, index, read, written))
        yield index


@contextmanager
def _plain_tiles(
    k: KernelContext, ranges: Ranges, index: list[IndexValue], read: int, written: int
) -> Iterator[None]:
    """Run the region for every element of all tiles; `index` is the element's index."""
    with ExitStack() as stack:
        tiles: list[tuple[int, IndexValue, IndexValue]] = []
        for dim, size in ((read, _ROWS), (written, _COLUMNS)):
            start, stop = ranges[dim]
            first = stack.enter_context(k.body.loop(start, stop, size))
            tiles.append((dim, first, k.math.minimum(stop, k.math.add(first, size))))
        for dim, first, end in tiles:
            index[dim] = stack.enter_context(k.body.loop(first, end))
        yield


@contextmanager
def _copied_tiles(
    lanes: Lanes,
    shape: ArrayShape,
    across: Across,
    ranges: Ranges,
    index: list[IndexValue],
    written: int,
    side: int,
) -> Iterator[None]:
    """Run the region for vectors of all tiles whose elements of `across.members` were copied."""
    k, m, b, read = lanes.k, lanes.k.math, lanes.b, across.dim
    copies = [b.allocate(member.array.dtype, side * side) for member in across.members]
    start, stop = ranges[read]
    with ExitStack() as stack:
        first = stack.enter_context(k.body.loop(start, stop, side))
        end = m.minimum(stop, m.add(first, side))
        top = m.minimum(first, shape.dims[read] - side)
        left = stack.enter_context(k.body.loop(*ranges[written], side))
        left = m.minimum(left, shape.dims[written] - side)
        stack.enter_context(lanes.inside())
        with k.body.loop(0, side) as column, k.body.loop(0, side, lanes.count) as row:
            index[read], index[written] = lanes.at(m.add(top, row)), m.add(left, column)
            place = m.add(m.mul(column, side), lanes.at(row))
            for member, copy in zip(across.members, copies, strict=True):
                b.store(copy, m.value(place), k.g.element(k.frame, member, tuple(index)))
        row = stack.enter_context(k.body.loop(first, end))
        column = stack.enter_context(k.body.loop(0, side, lanes.count))
        index[read], index[written] = row, lanes.at(m.add(left, column))
        first = m.value(m.add(m.mul(column, side), m.sub(row, top)))
        apart = LaneIndex(S64, first.text, stride=side)
        for member, copy in zip(across.members, copies, strict=True):
            value = b.load_each(copy, member.array.dtype, apart)
            k.body.keep((k.frame, member, (), tuple(index)), value)
        yield
