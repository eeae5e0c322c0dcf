"""The routines of packed products: rows of tiles, and packing of rows and of columns."""

from __future__ import annotations

from functools import cache

from hloc.codegen.emitters.block_packing import gathered_blocks, lined_blocks
from hloc.codegen.emitters.matrix_kernel import matrix_kernel
from hloc.codegen.emitters.micro_kernel import (
    DIRECT_TILE_TYPES,
    TILE_TYPES,
    Arithmetic,
    Tile,
    lanes,
    micro_kernel,
)
from hloc.codegen.emitters.packing import (
    GATHER_TYPES,
    LONG_RUN,
    ROW_TYPES,
    RUN,
    Packing,
    gather_packing,
    row_packing,
)
from hloc.codegen.emitters.routine_writer import RoutineWriter
from hloc.codegen.routine import Routines
from hloc.codegen.target import Target
from hloc.dtypes import S8, DType

LINES, PIECES, RUNS, LONG, ANY, DIRECT = "lines", "pieces", "runs", "long", "any", "direct"
"""How rows or columns lie in memory: side by side, some side by side, with k in
short or long runs, or otherwise.

Rows that are `DIRECT` are read where they lie.
"""


@cache
def product_routines(
    arithmetic: Arithmetic,
    tile: Tile,
    sources: tuple[DType, DType],
    forms: tuple[str, str],
    target: Target,
) -> Routines:
    """Return the functions `NAME_tiles`, `NAME_columns` and, unless direct, `NAME_rows`.

    Args:
        arithmetic: how the micro-kernel multiplies.
        tile: what it holds in registers.
        sources: element types of the operands in memory.
        forms: how rows and columns lie in memory.
        target: the machine.
    """
    left, right = (dtype.name for dtype in sources)
    shape = f"{tile.rows}x{tile.vectors}"
    name = f"product_{arithmetic.name}_{left}_{right}_{shape}_{'_'.join(forms)}"
    width = lanes(arithmetic, target)
    bias = -128 if arithmetic.operand is S8 else 0
    pack_right = Packing(sources[1], arithmetic.operand, arithmetic.group, tile.vectors * width)
    direct = forms[0] == DIRECT
    parts: list[tuple[RoutineWriter, tuple[str, ...]]]
    if arithmetic.is_matrix:
        pack_left = Packing(sources[0], sources[0], arithmetic.group, tile.rows)
        parts = [
            (matrix_kernel(f"{name}_tiles", arithmetic, tile, target), TILE_TYPES),
            _block_packer(f"{name}_columns", pack_right, forms[1], True, target),
            _block_packer(f"{name}_rows", pack_left, forms[0], False, target),
        ]
    else:
        tiles = micro_kernel(f"{name}_tiles", arithmetic, tile, target, direct=direct)
        parts = [
            (tiles, DIRECT_TILE_TYPES if direct else TILE_TYPES),
            _packer(f"{name}_columns", pack_right, forms[1], width, target),
        ]
        if not direct:
            pack_left = Packing(sources[0], arithmetic.operand, arithmetic.group, tile.rows, bias)
            lanes_ = _row_lanes(tile.rows)
            parts.append(_packer(f"{name}_rows", pack_left, forms[0], lanes_, target))
    needed = dict.fromkeys(d for part, _ in parts for d in part.fn.declarations)
    text = "\n".join([*needed, "", *(part.text() for part, _ in parts)])
    declared = [f"declare void @{part.fn.name}({', '.join(types)})" for part, types in parts]
    return Routines(name, tuple(declared), text)


def _block_packer(
    name: str, p: Packing, form: str, by_unit: bool, target: Target
) -> tuple[RoutineWriter, tuple[str, ...]]:
    if form == LINES:
        return lined_blocks(name, p, target, by_unit=by_unit), ROW_TYPES
    packer = gathered_blocks(name, p, target, by_unit=by_unit, runs=form == RUNS)
    return packer, GATHER_TYPES


def _row_lanes(rows: int) -> int:
    """Return the size of vectors that fill a panel of `rows` rows."""
    return next(size for size in (8, 4, 2) if rows % size == 0)


def _packer(
    name: str, p: Packing, form: str, width: int, target: Target
) -> tuple[RoutineWriter, tuple[str, ...]]:
    if form == LINES:
        return row_packing(name, p, width, target), ROW_TYPES
    runs = {RUNS: RUN, LONG: LONG_RUN}.get(form, 0)
    packer = gather_packing(name, p, target, runs=runs, pieces=form == PIECES)
    return packer, GATHER_TYPES
