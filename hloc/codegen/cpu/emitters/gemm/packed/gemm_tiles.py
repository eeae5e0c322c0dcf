"""The machine-dependent choices for packed gemms: instructions, tiles, forms of packing."""

from __future__ import annotations

from collections.abc import Sequence

from hloc.codegen.cpu.emitters.gemm.micro_kernels.bf16_parts import PARTS
from hloc.codegen.cpu.emitters.gemm.micro_kernels.matrix_kernel import SIDE
from hloc.codegen.cpu.emitters.gemm.micro_kernels.multiply_accumulate import (
    has_dot_products,
    has_pair_sums,
)
from hloc.codegen.cpu.emitters.gemm.micro_kernels.tile_arithmetic import Arithmetic, Tile, lanes
from hloc.codegen.cpu.emitters.gemm.packed.gemm_routines import (
    AHEAD,
    ANY,
    DIRECT,
    DIRECT_RUNS,
    IN_PARTS,
    IN_PLACE,
    LINES,
    LONG,
    PANELS,
    PIECES,
    RUNS,
)
from hloc.codegen.cpu.emitters.gemm.packed.packed_gemm import (
    BYTE_PRODUCTS,
    PackedGemm,
    has_direct_columns,
    is_in_runs,
    packs_ahead,
    sums_type,
)
from hloc.codegen.cpu.emitters.gemm.packing.packing import LONG_RUN, RUN
from hloc.codegen.kernels.gemm_problem import Axis
from hloc.codegen.llvm.target import Target
from hloc.dtypes import BF16, F32, S8, S16, S32, U8

MIN_SUMS, MIN_NARROW_SUMS = 10, 9
"""Sums in registers below which a multiplication waits for the one before it; in narrow vectors.

Time of six rows of 256 bits over that of four, f32: 0.88 for 128x768x3072, 0.94 for 64x768x768,
0.91 for 100x100x100, 0.97 for 28x768x768, 1.03 for 20x512x1024.
"""

IDLE_COST = 0.1
"""Cost of a vector of a tile that is unused at the last columns, in vectors of one row, on machines
with 32 registers."""

_WIDE_TILES: tuple[Tile, ...] = (
    Tile(12, 2),
    Tile(14, 2),
    Tile(6, 4),
    Tile(8, 3),
    Tile(8, 2),
    Tile(24, 1),
)
_NARROW_TILES: tuple[Tile, ...] = (Tile(6, 2), Tile(4, 2), Tile(12, 1))
_WIDE_DIRECT_TILES: tuple[Tile, ...] = (Tile(6, 4), Tile(8, 3), Tile(8, 2), Tile(8, 1))
_NARROW_DIRECT_TILES: tuple[Tile, ...] = (Tile(6, 2), Tile(4, 2), Tile(8, 1))
_LANE_TILES: tuple[Tile, ...] = (Tile(8, 3), Tile(12, 2), Tile(8, 2), Tile(24, 1))
_LANE_DIRECT_TILES: tuple[Tile, ...] = (Tile(6, 3), Tile(4, 4), Tile(8, 2), Tile(8, 1))
"""Of 32 registers some hold neighbouring rows, or steps of k of each row, for products by lane."""

_MATRIX_TILES: tuple[Tile, ...] = (Tile(32, 2), Tile(16, 3), Tile(48, 1))
"""The latency of an instruction is that of three, so there must be at least three accumulators."""

_BYTE_INSTRUCTIONS = {
    (S8, S8): "tdpbssd",
    (S8, U8): "tdpbsud",
    (U8, S8): "tdpbusd",
    (U8, U8): "tdpbuud",
}
"""Instructions of matrix registers for bytes."""


def arithmetic_of(p: PackedGemm, target: Target) -> Arithmetic:
    """Return the best arithmetic of the machine."""
    total = sums_type(p.sources, p.result)
    assert total is not None
    wide = target.vector_bits == 512
    if wide and p.sources == (BF16, BF16) and target.has("amx-bf16"):
        return Arithmetic("matrix", F32, BF16, p.result, 2, "tdpbf16ps")
    if wide and p.splits and target.has("amx-bf16"):
        return Arithmetic("parts", F32, BF16, F32, 2, "tdpbf16ps", parts=PARTS)
    if wide and p.sources in _BYTE_INSTRUCTIONS and target.has("amx-int8"):
        return Arithmetic("matrix", S32, S8, S32, 4, _BYTE_INSTRUCTIONS[p.sources])
    if wide and p.sources == (BF16, BF16) and target.has("avx512bf16"):
        return Arithmetic("bf16", F32, BF16, p.result, 2)
    if wide and p.sources == (S8, S8) and target.has("avx512vnni"):
        return Arithmetic("s8", S32, S8, S32, 4, bias=-128)
    if p.sources in ((S8, S8), (U8, U8)) and has_dot_products(target):
        return Arithmetic(f"dot_{p.sources[0].name}", S32, p.sources[0], S32, 4)
    if p.sources in BYTE_PRODUCTS and has_pair_sums(target):
        return Arithmetic("s16", S32, S16, S32, 2)
    return Arithmetic(total.name, total, total, p.result)


def tile_of(p: PackedGemm, arithmetic: Arithmetic, target: Target) -> Tile:
    """Return the tile that wastes least at the edges."""
    rows, columns, _ = p.sizes
    width = lanes(arithmetic, target)
    is_wide, is_matrix = target.vector_bits == 512, arithmetic.is_matrix
    idle_cost = IDLE_COST if is_wide or target.is_aarch64 else 0.0
    least_sums = 0 if is_matrix else MIN_SUMS if is_wide else MIN_NARROW_SUMS

    def cost(tile: Tile) -> float:
        whole, rest = divmod(-(-columns // width), tile.vectors)
        down = tile.rows // SIDE if is_matrix else tile.rows
        rest = tile.vectors if rest and is_matrix else rest

        def of_vectors(vectors: int) -> float:
            """Return the time for this many vectors of a tile, in multiplications of a row.

            Few sums wait for each other; a single vector takes more loads than multiplications.
            """
            multiplications = vectors * max(least_sums / (down * vectors), 1)
            loads = (vectors + down) / down
            return 0.2 * loads + (multiplications if is_matrix else max(multiplications, loads))

        across = whole * of_vectors(tile.vectors)
        if rest:
            across += of_vectors(rest) + idle_cost * (tile.vectors - rest)
        return -(-rows // tile.rows) * tile.rows * across

    rows_form = direct_form(p) if is_direct(p, arithmetic) else ""
    return min(tiles_of(arithmetic, target, rows_form), key=cost)


def tiles_of(arithmetic: Arithmetic, target: Target, rows_form: str) -> tuple[Tile, ...]:
    """Return the tiles to choose from; `rows_form` of rows that are read in place, or another."""
    direct = rows_form in IN_PLACE
    if arithmetic.is_matrix:
        return _MATRIX_TILES
    if target.is_aarch64 and rows_form != DIRECT:
        return _LANE_DIRECT_TILES if direct else _LANE_TILES
    if target.vector_bits == 512 or target.is_aarch64:
        return _WIDE_DIRECT_TILES if direct else _WIDE_TILES  # there are 32 registers
    return _NARROW_DIRECT_TILES if direct else _NARROW_TILES


def reads_parts(p: PackedGemm, arithmetic: Arithmetic) -> bool:
    """True if memory holds the rows in parts."""
    return p.rows_in_parts and arithmetic.parts > 1


def is_direct(p: PackedGemm, arithmetic: Arithmetic) -> bool:
    """True if reading rows in place is faster than packing them."""
    return can_be_direct(p, arithmetic) and has_direct_columns(p)


def can_be_direct(p: PackedGemm, arithmetic: Arithmetic) -> bool:
    """True if the micro-kernel can read rows in place: they need no conversion."""
    return p.sources[0] is arithmetic.operand is arithmetic.total


def direct_form(p: PackedGemm) -> str:
    """Return the form of rows that are read in place."""
    return DIRECT_RUNS if is_in_runs(p) else DIRECT


def has_panels(p: PackedGemm, arithmetic: Arithmetic, target: Target) -> bool:
    """True if the columns lie in memory as packing would leave them."""
    width = tile_of(p, arithmetic, target).vectors * lanes(arithmetic, target)
    is_moved = arithmetic.is_matrix or arithmetic.group > 1
    if is_moved or p.exchanged or p.sources[1] is not arithmetic.operand:
        return False
    step = width
    for axis in reversed(p.depth):
        if axis.rhs != step:
            return False
        step *= axis.size
    return [(axis.size, axis.rhs) for axis in p.columns] == [
        (p.sizes[1] // width, step),
        (width, 1),
    ]


def forms_of(p: PackedGemm, arithmetic: Arithmetic, target: Target) -> tuple[str, str]:
    """Return how the rows and the columns lie in memory."""
    left = packed_rows_form(p, arithmetic)
    if left != LINES and is_direct(p, arithmetic):
        left = direct_form(p)
    if has_panels(p, arithmetic, target):
        return left, PANELS
    steps = [axis.rhs for axis in p.columns]
    right = _form(p, arithmetic, p.columns, steps, p.depth[-1].rhs)
    is_ahead = right == LINES and arithmetic.parts > 1 and packs_ahead(p)
    return left, AHEAD if is_ahead else right


def packed_rows_form(p: PackedGemm, arithmetic: Arithmetic) -> str:
    """Return how rows lie in memory that are packed."""
    if reads_parts(p, arithmetic):
        return IN_PARTS
    return _form(p, arithmetic, p.rows, [axis.lhs for axis in p.rows], p.depth[-1].lhs)


def _form(
    p: PackedGemm, arithmetic: Arithmetic, axes: Sequence[Axis], steps: list[int], inner_step: int
) -> str:
    """Return how a side lies in memory, whose axes have these steps, and k this fastest one."""
    inner, group = p.depth[-1], arithmetic.group
    run = RUN * group
    if arithmetic.is_matrix:
        run = min(arithmetic.depth_multiple, p.sizes[2])
    if steps == [1]:
        return LINES
    if group == 1 and steps and steps[-1] == 1 and axes[-1].size >= RUN:
        return PIECES
    if inner_step != 1 or inner.size < run:
        return ANY
    is_long = len(p.depth) == 1 if arithmetic.is_matrix else inner.size >= LONG_RUN * group
    return LONG if is_long else RUNS
