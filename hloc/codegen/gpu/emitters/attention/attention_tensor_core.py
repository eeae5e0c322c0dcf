"""Both gemms of attention on tensor cores: a warp has 16 or 32 queries and all keys of a tile.

Tiles of keys and values alternate in a ring buffer in shared memory; later ones are copied
asynchronously. Queries and weights stay in registers.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.gpu.context import GpuContext
from hloc.codegen.gpu.emitters.attention.attention_fragments import Fragments
from hloc.codegen.gpu.emitters.attention.attention_softmax import OnlineSoftmax
from hloc.codegen.gpu.emitters.attention.attention_spread import Spread
from hloc.codegen.gpu.emitters.gemm.gemm_plan import Tile
from hloc.codegen.gpu.emitters.gemm.matrix_problem import MatrixProblem
from hloc.codegen.gpu.emitters.gemm.slab_writer import SLAB_ELEMENTS, SlabWriter
from hloc.codegen.gpu.emitters.gemm.tensor_core_kinds import Kind, kind_of_factors
from hloc.codegen.gpu.emitters.gemm.tensor_core_loader import TileLoader, moved, words_of
from hloc.codegen.gpu.helpers import WARP_THREADS
from hloc.dtypes import F32

_RING_BYTES = (48 << 10) - 256
"""Static shared memory of a block, minus that for the vote on masks."""

_STEP_BYTES = 32
"""Depth (k) of one instruction."""

_SLAB_BYTES = 4 * SLAB_ELEMENTS


class TensorCoreGemms:
    """Writes both gemms of one block.

    Attributes:
        softmax: works on the scores of each tile between the two.
    """

    def __init__(self, k: GpuContext, spread: Spread) -> None:
        """Choose the tiles of both gemms, and divide shared memory.

        The queries, the ring of keys and values, and at the end the result of each warp use one
        piece of shared memory in turn; queries that are not kept in registers have memory of their
        own.
        """
        self.k, self.spread = k, spread
        problem, m = spread.problem, k.math
        self.kinds = [_kind(p) for p in (problem.scores, problem.result)]
        warps = spread.threads // WARP_THREADS
        self.warp = m.div(k.thread("x"), WARP_THREADS)
        self.lane = m.rem(k.thread("x"), WARP_THREADS)
        self.down = spread.rows // warps // 16
        self.row = m.mul(self.warp, 16 * self.down)
        depth, columns = problem.loops.attention.depth, problem.loops.value.size
        self.is_tf32 = self.kinds[0].factors is F32
        self.step = _STEP_BYTES // self.kinds[0].factors.storage_bytes
        self.depth_steps = -(-depth // self.step)
        self.score_tiles, self.result_tiles = spread.keys // 8, 2 * -(-columns // 16)
        first = _tile(spread.rows, spread.keys, _padded(depth), spread.threads)
        self.result_tile = _tile(spread.rows, _padded(columns), spread.keys, spread.threads)
        scores, result = problem.scores, problem.result
        self.queries = TileLoader(k, scores, scores.left, first, self.kinds[0])
        self.keys = TileLoader(k, scores, scores.right, first, self.kinds[0])
        self.values = TileLoader(k, result, result.right, self.result_tile, self.kinds[1])
        self.pair_bytes = self.keys.stage_bytes + self.values.stage_bytes
        tiles = self.score_tiles, self.result_tiles
        self.fragments = Fragments(k, self.row, self.lane, self.down, tiles, self.kinds[1].factors)
        self.scores, self.sums = self.fragments.scores, self.fragments.sums
        patch = self.fragments.patch(self.row)
        self.softmax = OnlineSoftmax(k, spread, patch, self.scores, self.sums)
        # A mask needs the registers that the queries of two fragments would use.
        self.keeps_queries = self.down == 1 or self.softmax.scale is not None
        kept = 0 if self.keeps_queries else self.queries.stage_bytes
        self.pairs = 2 if kept + 2 * self.pair_bytes <= _RING_BYTES else 1
        sizes = (self.pairs * self.pair_bytes, self.queries.stage_bytes, warps * _SLAB_BYTES)
        self.query_place = k.shared_bytes(kept) if kept else None
        self.shared = k.shared_bytes(max(sizes))
        self.query_words: list[list[list[Value]]] = []
        self.head: IndexValue = 0
        self.first_row: IndexValue = 0
        self.first_tile: IndexValue = 0

    # ---- tiles

    def start(self, head: IndexValue, first_row: IndexValue) -> None:
        """Load the queries of the block into registers."""
        k = self.k
        self.head, self.first_row = head, first_row
        place = self.query_place or self.shared
        self._bring(self.queries, place, first_row, 0)
        k.call("copy_async.commit")
        if self.keeps_queries:
            k.call("copy_async.wait.0")
            k.barrier()
            self.query_words = [self._queries_at(place, s) for s in range(self.depth_steps)]

    def _queries_at(self, place: Value, step: int) -> list[list[Value]]:
        """Return the words of all queries of the warp at one step of depth."""
        rows = range(0, 16 * self.down, 16)
        return [self.queries.fragments(place, self.row, step, row) for row in rows]

    def begin(self, first: IndexValue, stop: IndexValue) -> None:
        """Prefetch the tiles of keys from `first` on; earlier ones are no longer read."""
        self.k.barrier()
        self.first_tile = first
        for number in range(2 * self.pairs - 1):
            self._ahead(first, number, stop)

    def _ahead(self, tile: IndexValue, number: int, stop: IndexValue) -> None:
        """Prefetch the keys or values `number` steps after the keys of `tile`."""
        k = self.k
        wanted = k.math.add(tile, number // 2)
        with k.body.when(k.math.compare("LT", wanted, stop)):
            first_key = k.math.mul(wanted, self.spread.keys)
            base = self._place(wanted, number % 2)
            if number % 2:
                self._bring(self.values, base, 0, first_key)
            else:
                self._bring(self.keys, base, first_key, 0)
        k.call("copy_async.commit")

    def _place(self, tile: IndexValue, is_values: int) -> Value:
        m = self.k.math
        pair = m.rem(m.sub(tile, self.first_tile), self.pairs)
        offset = m.add(m.mul(pair, self.pair_bytes), is_values * self.keys.stage_bytes)
        return moved(self.k, self.shared, offset)

    def _bring(self, loader: TileLoader, base: Value, line: IndexValue, depth: IndexValue) -> None:
        if loader.is_copied:
            loader.copy(base, self.head, line, depth)
            return
        loader.read(self.head, line, depth)
        loader.put(base)

    def _arrive(self, tile: IndexValue, number: int, stop: IndexValue) -> None:
        """Wait for the copy `number` steps after the keys of `tile`, and prefetch the next one."""
        self.k.call(f"copy_async.wait.{2 * self.pairs - 2}")
        self.k.barrier()
        self._ahead(tile, number + 2 * self.pairs - 1, stop)

    # ---- arithmetic

    def make_scores(self, tile: IndexValue, stop: IndexValue) -> None:
        """Put the scores of a tile of keys into slots."""
        k = self.k
        self._arrive(tile, 0, stop)
        base = self._place(tile, 0)
        zero = k.b.const(F32, 0)
        found = [zero] * (4 * self.down * self.score_tiles)
        for step in range(self.depth_steps):
            place = self.query_place
            left = self._queries_at(place, step) if place else self.query_words[step]
            right = (self.keys, base, step)
            self._multiply(found, self.kinds[0], left, right, self.score_tiles)
        for number, value in enumerate(found):
            k.b.store(self.scores, number, value)

    def add_values(self, tile: IndexValue, stop: IndexValue) -> None:
        """Add the values of a tile of keys times the weights in slots to the sums."""
        k = self.k
        self._arrive(tile, 1, stop)
        base = self._place(tile, 1)
        count = 4 * self.down * self.result_tiles
        found = [k.b.load(self.sums, F32, number) for number in range(count)]
        for step in range(self.spread.keys // self.step):
            left = [self.fragments.weights(i, step) for i in range(self.down)]
            self._multiply(found, self.kinds[1], left, (self.values, base, step), self.result_tiles)
        for number, value in enumerate(found):
            k.b.store(self.sums, number, value)

    def _multiply(
        self,
        found: list[Value],
        kind: Kind,
        left: list[list[Value]],
        right: tuple[TileLoader, Value, int],
        tiles: int,
    ) -> None:
        """Add the products of one step of depth to the sums `found`."""
        k, (loader, base, step) = self.k, right
        for j in range(0, tiles, 2):
            is_mixed = self.is_tf32 and loader is self.keys
            words = loader.fragments(base, 0, step, 8 * j, interleaved=is_mixed)
            for i, side in enumerate(left):
                for n in range(2):
                    at = 4 * (i * tiles + j + n)
                    pair = words[2 * n : 2 * n + 2]
                    sums = k.call(kind.helper, *side, *pair, *found[at : at + 4])
                    parts = words_of(k, sums, "float")
                    found[at : at + 4] = [Value(F32, word.text) for word in parts]

    # ---- the result

    def write(self, part: IndexValue, factors: Sequence[Value]) -> None:
        """Write the sums times a factor for each row."""
        k, p = self.k, self.spread.problem.result
        k.barrier()  # the last tile has been read
        slab = moved(k, self.shared, k.math.mul(self.warp, _SLAB_BYTES))
        writer = SlabWriter(k, p, self.result_tile, self.spread.parts, slab, self.lane)
        self.fragments.write(writer, (part, self.head), self.first_row, factors)


def _kind(p: MatrixProblem) -> Kind:
    kind = kind_of_factors(p)
    assert kind is not None
    return kind


def _tile(rows: int, columns: int, depth: int, threads: int) -> Tile:
    return Tile(rows, columns, depth, threads, 1, 1.0)


def _padded(size: int) -> int:
    """Return the padded size of a row of shared memory: a power of two, against bank conflicts."""
    return max(32, 1 << (size - 1).bit_length())
