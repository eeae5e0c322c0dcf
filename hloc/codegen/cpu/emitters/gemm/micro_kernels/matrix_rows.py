"""Products of few columns in matrix registers: rows that are contiguous along k are read in place.

    row_tiles(a, edge, panels, out, steps, row_bytes, rows, columns, adds, depth_bytes, a_row_bytes)

With so few columns, packing the rows would take longer than multiplying them. Only partial tiles
are copied to `edge`: the rows after the last tile, and the end of k.
"""

from __future__ import annotations

from functools import cache

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.cpu.emitters.gemm.micro_kernels.matrix_kernel import ROW_BYTES, MatrixTiles
from hloc.codegen.cpu.emitters.gemm.micro_kernels.micro_kernel import TILE_PARAMETERS
from hloc.codegen.cpu.emitters.gemm.micro_kernels.tile_arithmetic import Arithmetic, Tile
from hloc.codegen.cpu.emitters.routine_writer import RoutineWriter, argument, routine_unit
from hloc.codegen.cpu.emitters.vector_loads import first_lanes, load_lanes, store_lanes
from hloc.codegen.llvm.routine import Routines
from hloc.codegen.llvm.target import Target
from hloc.dtypes import S8

_PARAMETERS = (
    TILE_PARAMETERS[0],
    "ptr noalias %edge",
    *TILE_PARAMETERS[1:],
    "i64 %depth_bytes",
    "i64 %a_row_bytes",
)


@cache
def row_tiles(arithmetic: Arithmetic, tile: Tile, target: Target) -> Routines:
    """Return the function of a row of tiles; `edge` holds all of k of `tile.rows` rows."""
    name = f"row_tiles_{arithmetic.result_name}_{tile.rows}x{tile.vectors}_{arithmetic.instruction}"
    return routine_unit(name, _PARAMETERS, lambda w: _RowTiles(w, arithmetic, tile).write(), target)


class _RowTiles(MatrixTiles):
    """Emits the micro-kernel whose rows have stride `%a_row_bytes`."""

    def __init__(self, w: RoutineWriter, arithmetic: Arithmetic, tile: Tile) -> None:
        super().__init__(w, arithmetic, tile)
        self.edge_bytes = tile.rows * ROW_BYTES
        self.whole = self._whole_blocks()

    def _whole_blocks(self) -> IndexValue:
        """Copy partial tiles to the edge; return the number of blocks of k to read in place."""
        fn, math = self.fn, self.math
        is_whole = fn.value(f"icmp eq i64 %rows, {self.tile.rows}")
        blocks = math.value(math.div(argument("%depth_bytes"), ROW_BYTES)).text
        whole = argument(fn.value(f"select i1 {is_whole}, i64 {blocks}, i64 0"))
        with self.body.loop(whole, argument("%steps")) as step:
            start = math.mul(step, ROW_BYTES)
            left = math.sub(argument("%depth_bytes"), start)
            mask = first_lanes(self.w, left, ROW_BYTES)
            to = self.math.moved("%edge", math.mul(math.sub(step, whole), self.edge_bytes))
            with self.body.loop(0, argument("%rows")) as row:
                place = math.add(start, math.mul(row, argument("%a_row_bytes")))
                line = load_lanes(self.w, self.math.moved("%a", place), S8, ROW_BYTES, mask)
                at = self.math.moved(to, math.mul(row, ROW_BYTES))
                store_lanes(self.w, at, S8, ROW_BYTES, "", line)
        return whole

    def multiply(self, panel: str) -> None:
        """Run over the blocks of k in place, then over those at the edge."""
        math, width_bytes = self.math, self.width * ROW_BYTES
        with self.body.loop(0, self.whole) as step:
            a = self.math.moved("%a", math.mul(step, ROW_BYTES))
            self.multiply_block(
                a, "%a_row_bytes", self.math.moved(panel, math.mul(step, width_bytes))
            )
        with self.body.loop(self.whole, argument("%steps")) as step:
            a = self.math.moved("%edge", math.mul(math.sub(step, self.whole), self.edge_bytes))
            self.multiply_block(
                a, str(ROW_BYTES), self.math.moved(panel, math.mul(step, width_bytes))
            )
