"""Transposes as exchanges of two groups of dimensions, and their tiles.

Dimensions that stay adjacent in memory form one group. Of any permutation, `read` are the groups
that are fastest in the operand, `written` those fastest in the result, `run` those fastest in both,
and `others` the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import TypeAlias

from hloc.codegen.builder.index import loop_order
from hloc.codegen.gpu.emitters.reduction.reduce_plan import power_of_two
from hloc.codegen.gpu.kernel import BLOCK_THREADS
from hloc.codegen.kernels.context import root_of
from hloc.codegen.kernels.loop import is_flat, is_generated
from hloc.ir.instruction import Instruction
from hloc.ir.traversal import post_order
from hloc.lazy_dataclass import dataclass
from hloc.ops.folding import works_per_element
from hloc.shapes import ArrayShape, array_leaves

_TILE = 32
_TILE_ELEMENTS = _TILE * _TILE
_SECTOR_BYTES = 32
_MOST_SHARED_BYTES = 32 << 10
_FEWEST_ELEMENTS = 1 << 10
"""Arrays with at least this many elements are tiled."""

Dims: TypeAlias = tuple[int, ...]
"""Dimensions of the result, slowest first."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """The effect of a transpose on memory, in dimensions of its result."""

    others: Dims
    read: Dims
    written: Dims
    run: Dims


@dataclass(frozen=True, slots=True)
class TransposeTiles:
    """The tiling of a transpose.

    Attributes:
        heroes: members whose elements go through tiles; the root if all members do.
        batch, rows, columns: extents of `others`, `written` and `read` in a tile, powers of
            two; `run` is whole.
    """

    heroes: tuple[Instruction, ...]
    exchange: Exchange
    dims: Dims
    batch: int
    rows: int
    columns: int

    def size(self, group: Dims) -> int:
        """Return the number of elements of a group of dimensions."""
        return prod(self.dims[d] for d in group)


def transpose_tiles(inst: Instruction) -> TransposeTiles | None:
    """Return the tiling of `inst`, None if it is not a transpose or tiles do not pay."""
    shapes = array_leaves(inst.shape)
    if len(shapes) != 1 or not is_generated(inst) or is_flat(inst):
        return None
    root, (shape,) = root_of(inst), shapes
    members = post_order(inst.called[0]) if inst.opcode.name == "fusion" else [inst]
    exchanges = {member: exchange_of(member, shape) for member in members}
    here = _at_own_index(root, reversed(members))
    direct = [m for m, exchange in exchanges.items() if exchange and m in here]
    exchange = exchanges[direct[0]] if direct else next(filter(None, exchanges.values()), None)
    if exchange is None or shape.elements < _FEWEST_ELEMENTS:
        return None
    heroes = tuple(m for m in direct if exchanges[m] == exchange) or (root,)
    return _tiles(heroes, exchange, shape)


def exchange_of(inst: Instruction, shape: ArrayShape) -> Exchange | None:
    """Return the exchange of transpose or copy `inst` if its result has the layout of `shape`."""
    if not inst.is_a("transpose", "copy") or inst.array.dims != shape.dims:
        return None
    operand = loop_order(inst.operands[0].array)
    to_result = inst.attributes.dimensions.index if inst.is_a("transpose") else int
    source, result = [to_result(dim) for dim in operand], loop_order(shape)
    run = 0
    while run < len(result) and source[-1 - run] == result[-1 - run]:
        run += 1
    common = tuple(result[len(result) - run :])
    size = prod(shape.dims[d] for d in common) * shape.dtype.storage_bytes
    if run == len(result) or size >= _SECTOR_BYTES:
        return None
    source, result = source[: len(source) - run], result[: len(result) - run]
    read, written = _last_together(source, result), _last_together(result, source)
    others = tuple(d for d in result if d not in read and d not in written)
    return Exchange(others, read, written, common)


def _last_together(order: Sequence[int], other: Sequence[int]) -> Dims:
    """Return the longest suffix of `order` whose dimensions are also adjacent in `other`."""
    for first in range(len(order)):
        end = list(order[first:])
        at = other.index(end[0])
        if list(other[at : at + len(end)]) == end:
            return tuple(end)
    return ()


def _tiles(
    heroes: tuple[Instruction, ...], exchange: Exchange, shape: ArrayShape
) -> TransposeTiles | None:
    """Return tiles for a block of threads, None if memory is too small or threads would idle.

    Square if both sides are long enough; a short side lends its room to the other, then to the
    batch.
    """

    def size(group: Dims) -> int:
        return power_of_two(prod(shape.dims[d] for d in group))

    room = max(_TILE_ELEMENTS // size(exchange.run), BLOCK_THREADS)
    read, written = size(exchange.read), size(exchange.written)
    columns = min(read, max(_TILE, room // min(written, _TILE)))
    rows = min(written, room // min(columns, room))
    columns = min(columns, room // rows)
    batch = min(size(exchange.others), room // (rows * columns))
    whole = batch * rows * columns
    widest = max(hero.array.dtype.storage_bytes for hero in heroes)
    shared = len(heroes) * widest * whole * (size(exchange.run) + 1)
    if whole % BLOCK_THREADS or shared > _MOST_SHARED_BYTES:
        return None
    return TransposeTiles(heroes, exchange, shape.dims, batch, rows, columns)


def _at_own_index(root: Instruction, users_first: Iterable[Instruction]) -> set[Instruction]:
    """Return the members that are read only at the index of the result."""
    same, elsewhere = {root}, set[Instruction]()
    for inst in users_first:
        if inst in elsewhere or not works_per_element(inst):
            elsewhere.update(inst.operands)
        elif inst in same:
            same.update(o for o in inst.operands if o.array.dims == root.array.dims)
    return same - elsewhere
