"""Scores and sums of a warp on tensor cores, in the lane layout of mma accumulators.

Of 16 rows and 8 columns, lane 4 i + j holds columns 2 j and 2 j + 1 of rows i and i + 8. The second
gemm of attention needs that layout for its left side, so weights never leave their lanes.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.gpu.context import GpuContext
from hloc.codegen.gpu.emitters.attention.attention_softmax import Patch
from hloc.codegen.gpu.emitters.gemm.slab_writer import SLAB_COLUMNS, SlabWriter
from hloc.dtypes import F32, S32, DType


class Fragments:
    """The fragments of a warp, which has 16 rows or a multiple of that.

    Attributes:
        row: first row of the warp in its block.
        down: fragments of 16 rows.
        score_tiles, result_tiles: fragments of 8 columns of scores, and of the result.
        scores, sums: slots of f32, 4 per fragment.
    """

    def __init__(
        self,
        k: GpuContext,
        row: IndexValue,
        lane: IndexValue,
        down: int,
        tiles: tuple[int, int],
        factors: DType,
    ) -> None:
        self.k, self.row, self.lane, self.down = k, row, lane, down
        self.score_tiles, self.result_tiles = tiles
        self.factors = factors
        self.scores, self.sums = (k.b.allocate(F32, 4 * down * count) for count in tiles)

    def patch(self, lowest_row: IndexValue) -> Patch:
        """Return the elements of a lane."""
        m = self.k.math
        quad, place = m.div(self.lane, 4), m.rem(self.lane, 4)
        rows = [(i, half) for i in range(self.down) for half in range(2)]
        places = [m.add(m.add(self.row, quad), 16 * i + 8 * half) for i, half in rows]
        tiles = range(self.score_tiles)
        first_key, keys = m.mul(place, 2), [8 * j + e for j in tiles for e in range(2)]
        if self.factors is F32:  # a lane's adjacent elements are the keys that it multiplies next
            first_key, keys = place, [8 * j + 4 * e for j in tiles for e in range(2)]
        scores, results = (
            [
                [4 * (i * count + j) + 2 * half + e for j in range(count) for e in range(2)]
                for i, half in rows
            ]
            for count in (self.score_tiles, self.result_tiles)
        )
        return Patch(places, first_key, keys, scores, results, 4, lowest_row)

    def weights(self, i: int, step: int) -> list[Value]:
        """Return the weights of 16 queries at one step of keys, packed as a left fragment."""
        words = []
        is_tf32 = self.factors is F32
        for tile in [step] if is_tf32 else [2 * step, 2 * step + 1]:
            start = 4 * (i * self.score_tiles + tile)
            found = [self.k.b.load(self.scores, F32, start + number) for number in range(4)]
            if is_tf32:
                words += [self.k.b.bitcast(found[number], S32) for number in (0, 2, 1, 3)]
            else:
                words += [self._packed(found[:2]), self._packed(found[2:])]
        return words

    def _packed(self, pair: list[Value]) -> Value:
        word = self.k.call(f"pack_pair.{self.factors.name}", *pair)
        return word

    def write(
        self,
        writer: SlabWriter,
        place: tuple[IndexValue, IndexValue],
        first_row: IndexValue,
        factors: Sequence[Value],
    ) -> None:
        """Write the sums times a factor for each row, 16 rows and 32 columns at a time.

        Args:
            writer: of this warp.
            place: part of the keys, and batch.
            first_row: of the block.
            factors: of the rows of a lane.
        """
        m = self.k.math
        for i in range(self.down):
            row = m.add(first_row, m.add(self.row, 16 * i))
            for column in range(0, 8 * self.result_tiles, SLAB_COLUMNS):
                sums: list[Value] = []
                for j in range(column // 8, (column + SLAB_COLUMNS) // 8):
                    sums += self._finished(i, j, factors)
                writer.write(place, row, column, sums)

    def _finished(self, i: int, j: int, factors: Sequence[Value]) -> list[Value]:
        """Return the elements of a lane of a fragment, zeros after the last fragment."""
        b = self.k.b
        if j >= self.result_tiles:
            return [b.const(F32, 0)] * 4
        start = 4 * (i * self.result_tiles + j)
        return [
            b.fmul(b.load(self.sums, F32, start + number), factors[2 * i + number // 2])
            for number in range(4)
        ]
