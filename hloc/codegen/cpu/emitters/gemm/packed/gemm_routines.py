"""The routines of packed gemms: rows of tiles, and packing of rows and of columns."""

from __future__ import annotations

from functools import cache

from hloc.codegen.cpu.emitters.gemm.micro_kernels.matrix_kernel import MatrixTiles
from hloc.codegen.cpu.emitters.gemm.micro_kernels.micro_kernel import (
    DIRECT_PARAMETERS,
    PACKED_PARAMETERS,
    PACKED_STEPS,
    RUN_STEPS,
    MicroKernel,
)
from hloc.codegen.cpu.emitters.gemm.micro_kernels.packing_ahead import PACK_PARAMETERS
from hloc.codegen.cpu.emitters.gemm.micro_kernels.part_tiles import PartTiles, put_routine
from hloc.codegen.cpu.emitters.gemm.micro_kernels.tile_arithmetic import Arithmetic, Tile, lanes
from hloc.codegen.cpu.emitters.gemm.micro_kernels.tile_copy import EDGE_PARAMETERS, TileCopy
from hloc.codegen.cpu.emitters.gemm.packing.block_packing import BlockPacking
from hloc.codegen.cpu.emitters.gemm.packing.gather_packing import pack_gathered
from hloc.codegen.cpu.emitters.gemm.packing.lane_packing import LanePacking, can_gather
from hloc.codegen.cpu.emitters.gemm.packing.packing import (
    GATHER_PARAMETERS,
    LONG_RUN,
    ROW_PARAMETERS,
    RUN,
    Packing,
    pack_rows,
)
from hloc.codegen.cpu.emitters.routine_writer import RoutineWriter, argument, routine_unit
from hloc.codegen.llvm.routine import FINAL_FORM, Routines
from hloc.codegen.llvm.target import Target
from hloc.dtypes import F32, S8, DType
from hloc.lazy_dataclass import dataclass

LINES, PIECES, RUNS, LONG, ANY, DIRECT = "lines", "pieces", "runs", "long", "any", "direct"
DIRECT_RUNS = "direct_runs"
PANELS, IN_PARTS, AHEAD = "panels", "in_parts", "ahead"
"""How rows or columns lie in memory: side by side, some side by side, with k in
short or long runs, or otherwise. Columns in `PANELS` are packed already; rows `IN_PARTS` are split.
Columns that lie side by side and are packed `AHEAD` are packed while others are multiplied.

Rows that are `DIRECT` are read in place; `DIRECT_RUNS` have all of k in short runs.
"""

IN_PLACE = (DIRECT, DIRECT_RUNS)


@dataclass(frozen=True, slots=True)
class GemmRoutines:
    """The functions of one gemm, by name, and their units.

    Attributes:
        tiles: the row of tiles.
        columns, rows: the packing; `rows` is empty if rows are read where they lie, `columns` if
            they are packed already.
        units: what a kernel that calls them has to use.
    """

    tiles: str
    columns: str
    rows: str
    units: tuple[Routines, ...]


@cache
def gemm_routines(
    arithmetic: Arithmetic,
    tile: Tile,
    sources: tuple[DType, DType],
    forms: tuple[str, str],
    target: Target,
) -> GemmRoutines:
    """Return the functions of a gemm: a unit for each, which other gemms share.

    Args:
        arithmetic: how the micro-kernel multiplies.
        tile: size of the tile in registers.
        sources: element types of the operands in memory.
        forms: forms of rows and columns in memory.
        target: the machine.
    """
    width = lanes(arithmetic, target)
    is_matrix, is_direct = arithmetic.is_matrix, forms[0] in IN_PLACE
    pack = _block_packer if is_matrix else _packer
    packed = Packing(
        sources[1],
        arithmetic.operand,
        arithmetic.group,
        tile.vectors * width,
        filled=filled_columns(arithmetic, tile, target),
    )
    right = [] if forms[1] == PANELS else [pack("columns", packed, forms[1], width, target)]
    left: list[Routines] = []
    if not is_direct:
        is_bytes = is_matrix and arithmetic.operand is S8
        operand = sources[0] if is_bytes else arithmetic.operand
        packed = Packing(sources[0], operand, arithmetic.group, tile.rows, arithmetic.bias)
        left = [pack("rows", packed, forms[0], _row_lanes(tile.rows), target)]
    tiles = _tile_units(arithmetic, tile, forms[0], target)
    return GemmRoutines(
        tiles[0].name,
        right[0].name if right else "",
        left[0].name if left else "",
        (*tiles, *right, *left),
    )


def filled_columns(arithmetic: Arithmetic, tile: Tile, target: Target) -> int:
    """Return of what number of columns a packed panel is filled up to a multiple.

    Tiles with masks do not read vectors after the last valid one.
    """
    width = lanes(arithmetic, target)
    has_masks = target.vector_bits == 512 and not arithmetic.is_matrix
    return width if has_masks else width * tile.vectors


def matrix_columns(
    arithmetic: Arithmetic, tile: Tile, source: DType, form: str, target: Target
) -> Routines:
    """Return the packing of columns for matrix registers alone."""
    width = tile.vectors * lanes(arithmetic, target)
    packed = Packing(source, arithmetic.operand, arithmetic.group, width)
    return _block_packer("columns", packed, form, width, target)


def _tile_units(
    arithmetic: Arithmetic, tile: Tile, row_form: str, target: Target
) -> list[Routines]:
    """Return the row of tiles, then the function that it calls for edge tiles."""
    width, is_direct = lanes(arithmetic, target), row_form in IN_PLACE
    kind = arithmetic.instruction or (row_form if is_direct else "packed")
    name = f"tiles_{arithmetic.result_name}_{tile.rows}x{tile.vectors}_{kind}"
    if arithmetic.parts > 1:
        put = put_routine(f"put_parts_{tile.rows}x{tile.vectors}", tile, target)
        packed = Packing(F32, arithmetic.operand, arithmetic.group, tile.vectors * width)
        pack = _block_packer("columns", packed, AHEAD, width, target)

        def part_tiles(w: RoutineWriter) -> None:
            PartTiles(w, arithmetic, tile, put.name, pack.name).write()

        return [routine_unit(name, PACKED_PARAMETERS, part_tiles, target), put, pack]
    if arithmetic.is_matrix:

        def matrix_tiles(w: RoutineWriter) -> None:
            MatrixTiles(w, arithmetic, tile).write()

        return [routine_unit(name, PACKED_PARAMETERS, matrix_tiles, target)]
    total, result = arithmetic.total, arithmetic.result
    edge = f"edge_{total.name}_{result.name}_{tile.vectors}x{width}"
    unroll = unroll_of(row_form, target)

    def tiles(w: RoutineWriter) -> None:
        MicroKernel(w, edge, arithmetic, tile, direct=is_direct, unroll=unroll).write()

    def mover(w: RoutineWriter) -> None:
        copy = TileCopy(w, total, result, width, tile.vectors, "%copy")
        copy.move("%out", argument("%columns"))

    parameters = DIRECT_PARAMETERS if is_direct else PACKED_PARAMETERS
    return [
        routine_unit(name, parameters, tiles, target),
        routine_unit(edge, EDGE_PARAMETERS, mover, target, level=0),
    ]


def unroll_of(row_form: str, target: Target) -> int:
    """Return the steps of k per iteration of the micro-kernel."""
    if row_form == DIRECT_RUNS:
        return RUN_STEPS
    is_narrow = target.vector_bits < 512 and not target.is_aarch64
    return PACKED_STEPS if is_narrow and row_form not in IN_PLACE else 1


def _pack_name(side: str, p: Packing, form: str) -> str:
    kind = "_biased" * (p.offset != 0)
    return f"{side}_{p.source.name}_{p.packed.name}_{p.group}x{p.width}{kind}_{form}"


def _block_packer(side: str, p: Packing, form: str, _lanes: int, target: Target) -> Routines:
    """Return the packing of one side for matrix registers."""
    by_unit = side == "columns"
    own = (LINES, AHEAD) if by_unit else (LINES, LONG, IN_PARTS)
    form = form if form in own else ANY  # that function searches for runs of k anyway
    name = f"block_{_pack_name(side, p, form)}"

    def lines(w: RoutineWriter) -> None:
        BlockPacking(w, p, by_unit=by_unit).lines()

    def gather(w: RoutineWriter) -> None:
        packing = BlockPacking(w, p, by_unit=by_unit)
        {IN_PARTS: packing.copy_parts, LONG: packing.runs}.get(form, packing.gather)()

    def pieces(w: RoutineWriter) -> None:
        BlockPacking(w, p, by_unit=by_unit).pieces()

    if form == AHEAD:
        return routine_unit(name, PACK_PARAMETERS, pieces, target)
    if form == LINES:
        return routine_unit(name, ROW_PARAMETERS, lines, target)
    return routine_unit(name, GATHER_PARAMETERS, gather, target)


def _row_lanes(rows: int) -> int:
    """Return the size of vectors that fill a panel of `rows` rows."""
    return next(size for size in (8, 4, 2) if rows % size == 0)


def _packer(side: str, p: Packing, form: str, width: int, target: Target) -> Routines:
    """Return the packing of one side for vectors of `width` lanes."""
    name = _pack_name(side, p, form)
    # Blocks of columns that only move cost the same at any level; they are packed once.
    is_move = p.source is p.packed and p.group == 1
    level = 0 if side == "columns" and form == LONG and is_move else FINAL_FORM
    if form == LINES:
        return routine_unit(name, ROW_PARAMETERS, lambda w: pack_rows(w, p, width), target, level)
    by_lanes = side == "columns" and form in (ANY, PIECES) and can_gather(p, width, target)
    runs = {RUNS: RUN, LONG: LONG_RUN}.get(form, 0)

    def gather(w: RoutineWriter) -> None:
        if by_lanes:
            LanePacking(w, p, width).write()
        else:
            pack_gathered(w, p, runs=runs, pieces=form == PIECES)

    return routine_unit(name, GATHER_PARAMETERS, gather, target, level)
