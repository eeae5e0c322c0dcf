"""Shared memory of attention by warpgroups: queries, a ring of keys and values, and barriers.

Tiles are copied whole and multiplied from there. A copy is 64 elements of the contracted dimension:
the depth of queries and keys, or the keys of values.
"""

from __future__ import annotations

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.gpu.context import GpuContext
from hloc.codegen.gpu.emitters.attention.attention_spread import Spread
from hloc.codegen.gpu.emitters.gemm.matrix_problem import MatrixProblem, Side
from hloc.codegen.gpu.emitters.gemm.slab_writer import SLAB_ELEMENTS
from hloc.codegen.gpu.emitters.gemm.tensor_core_loader import moved
from hloc.codegen.gpu.emitters.gemm.warpgroup_kinds import HALF_KINDS, ROW_BYTES
from hloc.codegen.gpu.emitters.gemm.warpgroup_tiles import (
    STEP_ROW_BYTES,
    WarpgroupTile,
    units_of,
    word_of,
)
from hloc.codegen.gpu.nvptx.chips import CHIPS
from hloc.dtypes import F32, S32
from hloc.lazy_dataclass import dataclass

ROW_ELEMENTS, STEP_DEPTH = ROW_BYTES // 2, STEP_ROW_BYTES // 2
"""Elements of 16 bits of a row of a tile, and of the depth of one instruction."""

CONSUMER_WARPS = 8
_BARRIER_BYTES = 8
_ALIGNMENT = 1024
"""Alignment of tiles in shared memory, the period of the swizzle."""

_SLAB_BYTES = SLAB_ELEMENTS * F32.storage_bytes
_MOST_BYTES = CHIPS["sm_90a"].shared_bytes
_STAGES = (4, 3, 2)


@dataclass(frozen=True, slots=True)
class RingSizes:
    """Bytes of a block's shared memory; `stages` is 0 if two stages do not fit.

    Attributes:
        queries: of the tile of all queries.
        keys, values: of a tile of each.
    """

    queries: int
    keys: int
    values: int
    stages: int

    @property
    def barriers_at(self) -> int:
        """Offset of the barriers; the slabs of the consumers' warps are before them."""
        return self.queries + self.stages * (self.keys + self.values) + CONSUMER_WARPS * _SLAB_BYTES

    @property
    def votes_at(self) -> int:
        """Offset of a word for each of the consumers' warps."""
        return self.barriers_at + (1 + 4 * self.stages) * _BARRIER_BYTES

    @property
    def total(self) -> int:
        return self.votes_at + 4 * CONSUMER_WARPS


def ring_sizes(spread: Spread) -> RingSizes:
    """Return the sizes of an attention in elements of 16 bits, with as many stages as fit."""
    loops = spread.problem.loops
    depth = rounded(loops.attention.depth, ROW_ELEMENTS)
    columns = rounded(loops.value.size, ROW_ELEMENTS)
    sizes = [2 * size for size in (spread.rows * depth, spread.keys * depth, spread.keys * columns)]
    for stages in _STAGES:
        found = RingSizes(sizes[0], sizes[1], sizes[2], stages)
        if found.total <= _MOST_BYTES:
            return found
    return RingSizes(sizes[0], sizes[1], sizes[2], 0)


def rounded(size: int, unit: int) -> int:
    """Return the multiple of `unit` that is not below `size`."""
    return -(-size // unit) * unit


class Operand:
    """One operand in shared memory: pieces of 64 elements along the contracted dimension."""

    def __init__(self, k: GpuContext, p: MatrixProblem, side: Side, lines: int, depth: int) -> None:
        self.k, self.p = k, p
        self.tile = WarpgroupTile(k, p, side, lines, HALF_KINDS[side.dtype])
        self._pieces = range(rounded(depth, ROW_ELEMENTS) // ROW_ELEMENTS)

    @property
    def order(self) -> str:
        """Letter of the layout in the name of a helper."""
        return "d" if self.tile.by_depth else "l"

    def copy(
        self,
        target: Value,
        barrier: Value,
        head: IndexValue,
        line: IndexValue,
        depth: IndexValue,
    ) -> None:
        """Begin the copy of all pieces, with completion at `barrier`."""
        m, bytes_ = self.k.math, self.tile.stage_bytes
        batches = m.delinear(head, self.p.batch.sizes)
        for piece in self._pieces:
            at = moved(self.k, target, piece * bytes_)
            first = m.add(depth, piece * ROW_ELEMENTS)
            self.tile.copy(at, barrier, batches, line, first)

    def step(self, number: int) -> int:
        """Return the descriptor offset of `number` instructions along the contracted dimension."""
        piece, inside = divmod(number, ROW_ELEMENTS // STEP_DEPTH)
        return piece * self.tile.stage_bytes // 16 + self.tile.step(inside)


class AttentionRing:
    """Shared memory of a block.

    Attributes:
        queries, keys, values: the operands.
        slabs, votes: pointers to the slabs and to the words of the consumers' warps.
    """

    def __init__(self, k: GpuContext, spread: Spread) -> None:
        self.k, self.spread = k, spread
        scores, result = spread.problem.scores, spread.problem.result
        loops, self.sizes = spread.problem.loops, ring_sizes(spread)
        depth, columns = loops.attention.depth, rounded(loops.value.size, ROW_ELEMENTS)
        self.queries = Operand(k, scores, scores.left, spread.rows, depth)
        self.keys = Operand(k, scores, scores.right, spread.keys, depth)
        self.values = Operand(k, result, result.right, columns, spread.keys)
        self.shared = k.dynamic_shared(self.sizes.total, _ALIGNMENT)
        self.slabs = moved(k, self.shared, self.sizes.barriers_at - CONSUMER_WARPS * _SLAB_BYTES)
        self.votes = moved(k, self.shared, self.sizes.votes_at)
        self._first = (self.sizes.queries, self.sizes.queries + self.sizes.stages * self.sizes.keys)

    def slab(self, warp: IndexValue) -> Value:
        """Return the slab of a consumer's warp."""
        return moved(self.k, self.slabs, self.k.math.mul(warp, _SLAB_BYTES))

    # ---- barriers: that of the queries, then for each stage full keys, full values, empty ...

    def _barrier(self, number: IndexValue) -> Value:
        at = self.k.math.mul(number, _BARRIER_BYTES)
        return moved(self.k, moved(self.k, self.shared, self.sizes.barriers_at), at)

    def _full(self, stage: IndexValue, is_values: bool) -> Value:
        m = self.k.math
        return self._barrier(m.add(stage, 1 + is_values * self.sizes.stages))

    def _empty(self, stage: IndexValue, is_values: bool) -> Value:
        m = self.k.math
        return self._barrier(m.add(stage, 1 + (2 + is_values) * self.sizes.stages))

    def prepare(self) -> None:
        """Initialise all barriers; one thread does this, before the block's barrier."""
        k, stages = self.k, self.sizes.stages
        one, warps = k.b.const(S32, 1), k.b.const(S32, CONSUMER_WARPS)
        for number in range(1 + 4 * stages):
            k.call("phase.init", self._barrier(number), one if number <= 2 * stages else warps)
        k.call("phase.publish")
        for operand in (self.queries, self.keys, self.values):
            operand.tile.prepare()

    def _place(self, number: IndexValue) -> tuple[IndexValue, IndexValue]:
        """Return the stage of tile `number` of the block, and the parity of its phase."""
        m, stages = self.k.math, self.sizes.stages
        return m.rem(number, stages), m.rem(m.div(number, stages), 2)

    # ---- the producer

    def fill_queries(self, head: IndexValue, row: IndexValue) -> None:
        """Begin the copy of the queries from `row` on."""
        k, full = self.k, self._barrier(0)
        k.call("phase.expect", full, k.b.const(S32, self.sizes.queries))
        self.queries.copy(self.shared, full, head, row, 0)

    def fill(
        self, number: IndexValue, head: IndexValue, key: IndexValue, *, is_values: bool
    ) -> None:
        """Begin the copy of keys or values from `key` on, as soon as their stage is empty."""
        k, m = self.k, self.k.math
        stage, parity = self._place(number)
        k.call("phase.wait", self._empty(stage, is_values), word_of(k, m.sub(1, parity)))
        bytes_ = self.sizes.values if is_values else self.sizes.keys
        full = self._full(stage, is_values)
        k.call("phase.expect", full, k.b.const(S32, bytes_))
        target = moved(k, self.shared, m.add(self._first[is_values], m.mul(stage, bytes_)))
        if is_values:
            self.values.copy(target, full, head, 0, key)
        else:
            self.keys.copy(target, full, head, key, 0)

    # ---- the consumers

    def await_queries(self) -> None:
        """Wait for the queries."""
        self.k.call("phase.wait", self._barrier(0), self.k.b.const(S32, 0))

    def await_full(self, number: IndexValue, *, is_values: bool) -> None:
        """Wait for the keys or values of tile `number`."""
        stage, parity = self._place(number)
        self.k.call("phase.wait", self._full(stage, is_values), word_of(self.k, parity))

    def give_back(self, number: IndexValue, is_first_lane: Value, *, is_values: bool) -> None:
        """Release the keys or values of tile `number`; one lane of each warp arrives."""
        stage, _ = self._place(number)
        arrives = self.k.b.convert(is_first_lane, S32)
        self.k.call("phase.arrive", self._empty(stage, is_values), arrives)

    def query_descriptor(self, first_row: IndexValue) -> IndexValue:
        """Return the descriptor of 64 queries from `first_row`, a multiple of 64, on."""
        m = self.k.math
        start = m.mul(m.div(first_row, ROW_ELEMENTS), ROW_ELEMENTS * 2 * ROW_ELEMENTS // 16)
        return self.queries.tile.descriptor(m.add(units_of(self.k, self.shared), start))

    def descriptor(self, number: IndexValue, *, is_values: bool) -> IndexValue:
        """Return the descriptor of the keys or values of tile `number`."""
        m = self.k.math
        stage, _ = self._place(number)
        bytes_ = self.sizes.values if is_values else self.sizes.keys
        at = m.add(self._first[is_values] // 16, m.mul(stage, bytes_ // 16))
        tile = (self.values if is_values else self.keys).tile
        return tile.descriptor(m.add(units_of(self.k, self.shared), at))
