"""Both gemms of attention on tensor cores: a warp has 16 or 32 queries and all keys of a tile.

Tiles of keys and values alternate in a ring buffer in shared memory; later ones are copied
asynchronously. Queries and weights stay in registers: the accumulators of the first gemm have the
lane layout that the second gemm needs for its left side.
"""

from __future__ import annotations

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.gpu.context import GpuContext
from hloc.codegen.gpu.emitters.attention.attention_softmax import OnlineSoftmax, Patch
from hloc.codegen.gpu.emitters.attention.attention_spread import Spread
from hloc.codegen.gpu.emitters.gemm.gemm_plan import Tile
from hloc.codegen.gpu.emitters.gemm.matrix_problem import MatrixProblem
from hloc.codegen.gpu.emitters.gemm.slab_writer import SLAB_COLUMNS, SLAB_ELEMENTS, SlabWriter
from hloc.codegen.gpu.emitters.gemm.tensor_core_kinds import Kind, kind_of_factors
from hloc.codegen.gpu.emitters.gemm.tensor_core_loader import TileLoader, moved, words_of
from hloc.codegen.gpu.helpers import WARP_THREADS
from hloc.dtypes import F32, S32

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
        slots = [self.down * tiles * 4 for tiles in (self.score_tiles, self.result_tiles)]
        self.scores, self.sums = (k.b.allocate(F32, count) for count in slots)
        self.softmax = OnlineSoftmax(k, spread, self._patch(), self.scores, self.sums)
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

    def _patch(self) -> Patch:
        """Return the elements of a lane in a 16x8 fragment: two adjacent ones in rows g, g + 8."""
        m = self.k.math
        quad, pair = m.div(self.lane, 4), m.mul(m.rem(self.lane, 4), 2)
        rows = [(i, half) for i in range(self.down) for half in range(2)]
        places = [m.add(m.add(self.row, quad), 16 * i + 8 * half) for i, half in rows]
        tiles = range(self.score_tiles)
        keys = [m.add(pair, 8 * j + e) for j in tiles for e in range(2)]
        if self.is_tf32:  # a lane's adjacent elements are the keys that it multiplies next
            keys = [m.add(m.rem(self.lane, 4), 8 * j + 4 * e) for j in tiles for e in range(2)]
        scores, results = (
            [
                [4 * (i * count + j) + 2 * half + e for j in range(count) for e in range(2)]
                for i, half in rows
            ]
            for count in (self.score_tiles, self.result_tiles)
        )
        return Patch(places, keys, scores, results, 4, self.row)

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
            left = [self._weights(i, step) for i in range(self.down)]
            self._multiply(found, self.kinds[1], left, (self.values, base, step), self.result_tiles)
        for number, value in enumerate(found):
            k.b.store(self.sums, number, value)

    def _weights(self, i: int, step: int) -> list[Value]:
        """Return the weights of 16 queries at one step, packed as a left fragment."""
        words = []
        for tile in [step] if self.is_tf32 else [2 * step, 2 * step + 1]:
            start = 4 * (i * self.score_tiles + tile)
            found = [self.k.b.load(self.scores, F32, start + number) for number in range(4)]
            if self.is_tf32:
                words += [self.k.b.bitcast(found[number], S32) for number in (0, 2, 1, 3)]
            else:
                words += [self._packed(found[:2]), self._packed(found[2:])]
        return words

    def _packed(self, pair: list[Value]) -> Value:
        word = self.k.call(f"pack_pair.{self.kinds[1].factors.name}", *pair)
        return word

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

    def write(self, part: IndexValue, factors: list[Value]) -> None:
        """Write the sums times a factor for each row, 16 rows and 32 columns at a time."""
        k, m, p = self.k, self.k.math, self.spread.problem.result
        k.barrier()  # the last tile has been read
        slab = moved(k, self.shared, m.mul(self.warp, _SLAB_BYTES))
        writer = SlabWriter(k, p, self.result_tile, self.spread.parts, slab, self.lane)
        for i in range(self.down):
            row = m.add(self.first_row, m.add(self.row, 16 * i))
            for column in range(0, 8 * self.result_tiles, SLAB_COLUMNS):
                sums: list[Value] = []
                for j in range(column // 8, (column + SLAB_COLUMNS) // 8):
                    sums += self._finished(i, j, factors)
                writer.write((part, self.head), row, column, sums)

    def _finished(self, i: int, j: int, factors: list[Value]) -> list[Value]:
        """Return the elements of a lane of a fragment, zeros after the last fragment."""
        b = self.k.b
        if j >= self.result_tiles:
            return [b.const(F32, 0)] * 4
        start = 4 * (i * self.result_tiles + j)
        return [
            b.fmul(b.load(self.sums, F32, start + number), factors[2 * i + number // 2])
            for number in range(4)
        ]


def _kind(p: MatrixProblem) -> Kind:
    kind = kind_of_factors(p)
    assert kind is not None
    return kind


def _tile(rows: int, columns: int, depth: int, threads: int) -> Tile:
    return Tile(rows, columns, depth, threads, 1, 1.0)


def _padded(size: int) -> int:
    """Return the padded size of a row of shared memory: a power of two, against bank conflicts."""
    return max(32, 1 << (size - 1).bit_length())
