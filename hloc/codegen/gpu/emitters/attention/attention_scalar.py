"""Both gemms of attention without tensor cores: a thread computes 8x4 or 4x4 scores.

Factors are staged in shared memory, some steps of depth or keys at a time, one step ahead of the
arithmetic. So are weights, since every thread needs those of all keys.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.gpu.context import GpuContext
from hloc.codegen.gpu.emitters.attention.attention_softmax import OnlineSoftmax, Patch
from hloc.codegen.gpu.emitters.attention.attention_spread import Spread
from hloc.codegen.gpu.emitters.gemm.double_buffering import double_buffered
from hloc.codegen.gpu.emitters.gemm.gemm_plan import Tile
from hloc.codegen.gpu.emitters.gemm.gemm_reader import ResultWriter
from hloc.codegen.gpu.emitters.gemm.tiled_gemm import FactorLoader, when_below, write_columns
from hloc.codegen.gpu.vector_access import load_vector, store_vector
from hloc.dtypes import F32

_COLUMN_THREADS = 16
_VECTOR = 4
_PADDING = 4


class ScalarGemms:
    """Writes both gemms of one block.

    Attributes:
        softmax: works on the scores of each tile between the two.
    """

    def __init__(self, k: GpuContext, spread: Spread) -> None:
        """Choose the tiles of both gemms, and request shared memory and registers for them."""
        self.k, self.spread = k, spread
        problem, m = spread.problem, k.math
        columns = max(64, 1 << (problem.loops.value.size - 1).bit_length())
        scores, result = problem.scores, problem.result
        self.row_threads = spread.threads // _COLUMN_THREADS
        # Each thread loads 4 elements of each side.
        self.depth_step = _VECTOR * spread.threads // spread.rows
        self.key_step = _VECTOR * spread.threads // columns
        first = Tile(
            spread.rows, spread.keys, self.depth_step, self.row_threads, _COLUMN_THREADS, 1.0
        )
        second = Tile(spread.rows, columns, self.key_step, self.row_threads, _COLUMN_THREADS, 1.0)
        self.queries = FactorLoader(k, scores, scores.left, first)
        self.keys = FactorLoader(k, scores, scores.right, first)
        self.values = FactorLoader(k, result, result.right, second)
        self.weights = k.shared_array(F32, (spread.rows, spread.keys + _PADDING))
        row, column = m.delinear(k.thread("x"), [self.row_threads, _COLUMN_THREADS])
        self.rows = self._mine(row, spread.rows, self.row_threads)
        self.tile_keys = self._mine(column, spread.keys, _COLUMN_THREADS)
        self.columns = self._mine(column, columns, _COLUMN_THREADS)
        self.head: IndexValue = 0
        self.first_row: IndexValue = 0
        sizes = [len(self.rows) * len(own) * _VECTOR**2 for own in (self.tile_keys, self.columns)]
        self.scores, self.sums = (k.b.allocate(F32, size) for size in sizes)
        self.softmax = OnlineSoftmax(k, spread, self._patch(), self.scores, self.sums)

    def _mine(self, thread: IndexValue, size: int, threads: int) -> list[IndexValue]:
        """Return the first of each run of lines that belong to a thread."""
        m = self.k.math
        first = m.mul(thread, _VECTOR)
        return [m.add(first, run * threads * _VECTOR) for run in range(size // threads // _VECTOR)]

    def _lines(self, firsts: Sequence[IndexValue]) -> list[IndexValue]:
        return [self.k.math.add(first, i) for first in firsts for i in range(_VECTOR)]

    def _patch(self) -> Patch:
        rows, columns = map(self._lines, (self.rows, self.columns))
        runs = range(len(self.tile_keys))
        keys = [run * _COLUMN_THREADS * _VECTOR + i for run in runs for i in range(_VECTOR)]
        scores, results = (
            [[r * len(own) + c for c in range(len(own))] for r in range(len(rows))]
            for own in (keys, columns)
        )
        return Patch(rows, self.tile_keys[0], keys, scores, results, _COLUMN_THREADS)

    # ---- tiles

    def start(self, head: IndexValue, first_row: IndexValue) -> None:
        """Set the queries of the block."""
        self.head, self.first_row = head, first_row

    def begin(self, first: IndexValue, stop: IndexValue) -> None:
        """Do nothing: this variant does not prefetch."""

    def make_scores(self, tile: IndexValue, stop: IndexValue) -> None:
        """Put the scores of a tile of keys into slots."""
        k, m = self.k, self.k.math
        first_key = m.mul(tile, self.spread.keys)
        for number in range(len(self.rows) * len(self.tile_keys) * _VECTOR**2):
            k.b.store(self.scores, number, k.b.const(F32, 0))

        def read(step: IndexValue) -> None:
            depth = m.mul(step, self.depth_step)
            self.queries.read(self.head, self.first_row, depth)
            self.keys.read(self.head, first_key, depth)

        def put(buffer: IndexValue) -> None:
            self.queries.put(buffer)
            self.keys.put(buffer)

        def multiply(step: IndexValue, buffer: IndexValue) -> None:
            for depth in range(self.depth_step):
                left = self._row_of(self.queries, buffer, depth, self.rows)
                right = self._row_of(self.keys, buffer, depth, self.tile_keys)
                self._add(self.scores, left, right)

        steps = -(-self.spread.problem.loops.attention.depth // self.depth_step)
        double_buffered(self.k, steps, read, put, multiply)

    def add_values(self, tile: IndexValue, stop: IndexValue) -> None:
        """Add the values of a tile of keys times the weights in slots to the sums."""
        k, m = self.k, self.k.math
        first_key = m.mul(tile, self.spread.keys)
        slots = iter(self.softmax.patch.scores)
        for row in self._lines(self.rows):
            mine = [k.b.load(self.scores, F32, slot) for slot in next(slots)]
            for run, key in enumerate(self.tile_keys):
                at = m.linear((row, key), self.weights.strides)
                values = mine[run * _VECTOR : (run + 1) * _VECTOR]
                store_vector(k, self.weights.pointer, at, values)

        def read(step: IndexValue) -> None:
            self.values.read(self.head, 0, m.add(first_key, m.mul(step, self.key_step)))

        def multiply(step: IndexValue, buffer: IndexValue) -> None:
            for start in range(0, self.key_step, _VECTOR):
                key = m.add(m.mul(step, self.key_step), start)
                rows = [self._weights(row, key) for row in self._lines(self.rows)]
                for i in range(_VECTOR):
                    right = self._row_of(self.values, buffer, start + i, self.columns)
                    self._add(self.sums, [row[i] for row in rows], right)

        steps: IndexValue = self.spread.keys // self.key_step
        count = self.spread.problem.loops.key.size
        if count % self.spread.keys:
            left_over = m.add(m.sub(count, first_key), self.key_step - 1)
            steps = m.minimum(steps, m.div(left_over, self.key_step))
        double_buffered(k, steps, read, self.values.put, multiply)

    # ---- arithmetic

    def _row_of(
        self,
        loader: FactorLoader,
        buffer: IndexValue,
        depth: int,
        firsts: Sequence[IndexValue],
    ) -> list[Value]:
        """Return this thread's lines at one step of depth."""
        elements: list[Value] = []
        for first in firsts:
            at = self.k.math.linear((buffer, depth, first), loader.shared.strides)
            elements += load_vector(self.k, loader.shared.pointer, F32, at, _VECTOR)
        return elements

    def _weights(self, row: IndexValue, key: IndexValue) -> list[Value]:
        at = self.k.math.linear((row, key), self.weights.strides)
        return load_vector(self.k, self.weights.pointer, F32, at, _VECTOR)

    def _add(self, slots: Value, left: list[Value], right: list[Value]) -> None:
        """Add the products of all of `left` and all of `right` to slots."""
        b = self.k.b
        for i, x in enumerate(left):
            for j, y in enumerate(right):
                at = i * len(right) + j
                b.store(slots, at, b.multiply_add(x, y, b.load(slots, F32, at)))

    # ---- the result

    def write(self, part: IndexValue, factors: Sequence[Value]) -> None:
        """Write the sums times a factor for each row."""
        k, m, problem = self.k, self.k.math, self.spread.problem.result
        results = ResultWriter(k, problem, self.spread.parts)
        for number, row in enumerate(self._lines(self.rows)):
            at_row = m.add(self.first_row, row)
            slots = self.softmax.patch.results[number]
            values = [k.b.fmul(k.b.load(self.sums, F32, slot), factors[number]) for slot in slots]
            with when_below(k, at_row, problem.rows.count, self.spread.rows):
                self._write_row(results, (part, self.head, at_row), values)

    def _write_row(
        self,
        results: ResultWriter,
        place: tuple[IndexValue, IndexValue, IndexValue],
        values: list[Value],
    ) -> None:
        """Write this thread's columns of a row, which is at part, batch and row."""
        sizes = (self.spread.problem.result.columns.count, 64, results.width)
        for run, column in enumerate(self.columns):
            write_columns(
                self.k,
                values[run * _VECTOR : (run + 1) * _VECTOR],
                column,
                sizes,
                lambda at, some: results.write(*place, at, some),
            )
