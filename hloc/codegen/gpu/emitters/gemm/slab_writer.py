"""Stores the accumulators of a warp with coalesced accesses.

They go through shared memory, 16 rows and 32 columns at a time: of every 8 columns, lane 4 i + j
holds columns 2 j and 2 j + 1 of rows i and i + 8, the layout of the mma instructions.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import Value
from hloc.codegen.gpu.context import GpuContext
from hloc.codegen.gpu.emitters.gemm.gemm_plan import Tile
from hloc.codegen.gpu.emitters.gemm.gemm_reader import ResultWriter
from hloc.codegen.gpu.emitters.gemm.matrix_problem import MatrixProblem
from hloc.codegen.gpu.emitters.gemm.tiled_gemm import when_below, write_columns
from hloc.codegen.gpu.helpers import WARP_THREADS
from hloc.codegen.gpu.vector_access import load_vector, store_vector

SLAB_ROWS, SLAB_COLUMNS = 16, 32
_STRIDE = SLAB_COLUMNS + 8
SLAB_ELEMENTS = SLAB_ROWS * _STRIDE
"""Elements of shared memory per warp."""


class SlabWriter:
    """Stores the pieces of one warp.

    Args:
        k: the function.
        p: the gemm.
        tile: of the block, which may overlap the edges of the result.
        parts: into which the depth is cut.
        slab: pointer into shared memory, to `SLAB_ELEMENTS` of the warp's own.
        lane: index of the thread in its warp.
    """

    def __init__(
        self, k: GpuContext, p: MatrixProblem, tile: Tile, parts: int, slab: Value, lane: IndexValue
    ) -> None:
        self.k, self.p, self.tile, self.lane = k, p, tile, lane
        self.results = ResultWriter(k, p, parts)
        self.memory = pointer_value(
            k.fn.value(f"addrspacecast ptr addrspace(3) {slab.text} to ptr")
        )

    def write(
        self,
        place: tuple[IndexValue, IndexValue],
        row: IndexValue,
        column: IndexValue,
        sums: Sequence[Value],
    ) -> None:
        """Write the piece whose first element is at a row and a column of the result.

        Args:
            place: part of the depth, and batch.
            row: of its first element.
            column: of its first element, a multiple of 32.
            sums: accumulators of this lane, 4 per 8 columns: two of row i, two of row i + 8.
        """
        k, m = self.k, self.k.math
        quad, pair = m.div(self.lane, 4), m.mul(m.rem(self.lane, 4), 2)
        for start in range(0, len(sums), 2):
            j, half = divmod(start // 2, 2)
            at = m.linear((m.add(quad, 8 * half), m.add(pair, 8 * j)), (_STRIDE, 1))
            store_vector(k, self.memory, at, sums[start : start + 2])
        k.call("warp_barrier")
        count = SLAB_ROWS * SLAB_COLUMNS // self.width // WARP_THREADS
        if self.results.has_epilogue:
            # A loop, which LLVM unrolls if the epilogue is small.
            with k.body.loop(0, count) as run:
                self._write_run(place, row, column, run)
        else:
            for number in range(count):
                self._write_run(place, row, column, number)
        k.call("warp_barrier")

    @property
    def width(self) -> int:
        """Adjacent columns per store of a lane."""
        return min(self.results.width, 4)

    def _write_run(
        self,
        place: tuple[IndexValue, IndexValue],
        row: IndexValue,
        column: IndexValue,
        run: IndexValue,
    ) -> None:
        """Write run `run` of this lane."""
        k, m, p, tile, width = self.k, self.k.math, self.p, self.tile, self.width
        first = m.add(self.lane, m.mul(run, WARP_THREADS))
        down, across = m.delinear(first, [SLAB_ROWS, SLAB_COLUMNS // width])
        across = m.mul(across, width)
        at = m.linear((down, across), (_STRIDE, 1))
        values = load_vector(k, self.memory, p.sums, at, width)
        row, column = m.add(row, down), m.add(column, across)
        sizes = (p.columns.count, tile.columns, width)
        with when_below(k, row, p.rows.count, tile.rows):
            write_columns(
                k, values, column, sizes, lambda at, some: self.results.write(*place, row, at, some)
            )
