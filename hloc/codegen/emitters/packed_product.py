"""Products through packed panels and micro-kernels: which ones, in what tiles and blocks.

The columns of the result lie side by side in memory; its rows are evenly spaced. Axes that do not
fit into these two become loops around the routine. All else about the operands is in tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from hloc.codegen.emitters.matrix_kernel import SIDE
from hloc.codegen.emitters.micro_kernel import RUN_STEPS, Arithmetic, Tile, lanes
from hloc.codegen.emitters.packing import LONG_RUN, RUN
from hloc.codegen.emitters.product_routine import (
    ANY,
    DIRECT,
    DIRECT_RUNS,
    LINES,
    LONG,
    PIECES,
    RUNS,
)
from hloc.codegen.emitters.products import Axis, Product, swapped
from hloc.codegen.target import Target
from hloc.dtypes import BF16, F16, F32, F64, S8, S32, U8, DType

MIN_ROWS, MIN_COLUMNS, MIN_DEPTH, MIN_WORK = 12, 3, 8, 1 << 15
"""Sizes below which packing does not pay."""

MIN_BYTE_ROWS = 4
"""The same for bytes, which streaming would have to widen."""

MIN_LINES = 96
"""Rows that lie side by side from which on they are packed by themselves."""

DIRECT_COLUMNS, DIRECT_RUN_COLUMNS = 128, 4096
"""Columns up to which rows are read where they are: of any rows, and of rows along k."""

DEPTH_BLOCK = 384
"""Steps of k that are packed at a time; fewer than would make long sums of f32 inaccurate."""

DIRECT_DEPTH_BLOCK = 1024
"""The same for few columns, whose rows are read where they are: long pieces of them stream better.

Time over that of 512 steps: 0.90 for 1024x16x2048 of f32, 0.96 for 1024x32x2048, 0.95 for
1024x128x2048, 0.92 for 512x32x4096.
"""

STREAMED_COLUMNS, STREAMED_DEPTH_BLOCK = 16, 2048
"""The same for so few columns that memory sets the pace, if k is taken by runs: even and odd steps
have sums of their own, so that sums are no longer.

Time over that of 1024 steps: 0.93 for 1024x16x2048 of f32.
"""

COLUMN_BLOCK = 1024
"""Columns that are packed at a time."""

PANEL_BYTES = 1 << 20
"""Size of packed columns if all of k is packed at a time."""

MIN_WHOLE_COLUMNS = 128
"""Columns from which on all of k is packed at once, so that the result is written once.

Time over that of one block of k after the other, f32: 0.84 for 1024x1024x1024, 0.97 for
2048x2048x2048. Rows must not be packed for every block of columns again: 1.3 for a transposed
left-hand side, 1.2 to 1.4 with matrix registers.
"""

MATRIX_DEPTH_BYTES, MATRIX_PANEL_BYTES, MIN_MATRIX_COLUMNS = 1024, 1 << 20, 128
"""The same for matrix registers: bytes of a row, of packed columns, and fewest columns."""

MAX_TILE, MAX_ROWS = 64, 48
"""No tile has more columns, and no more rows."""

ROW_PIECE, COLUMN_PIECE = 32, 64
"""Rows and columns that threads count by: few tiles do not fit into them."""

MIN_OUTER_PIECES = 8
"""Steps of the outermost loop from which on threads share it, and not one product."""

MAX_DEPTH_MULTIPLE = 64
"""Steps of k to whose multiples panels may be filled up."""

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
ALIGNMENT = 64
"""Bytes of a cache line; tables and panels begin at one."""

_NARROW_FLOATS = (BF16, F16)

PARTS = {"dot_bf16_bf16_f32": 2, "dot_bf16_bf16_f32_x3": 2}
"""How many bf16 stand for an f32 in algorithms that matrix registers follow faster than f32.

One would do for the first, but XLA:CPU makes that in f32, and its answers are wanted. Time over
that of f32 for three parts, `dot_bf16_bf16_f32_x6`: 1.4 to 1.6.
"""

PART_PAIRS = ((1, 0), (0, 1), (0, 0))
"""Parts of both sides whose products are summed, the smallest first."""

_BYTE_PRODUCTS = {
    (S8, S8): "tdpbssd",
    (S8, U8): "tdpbsud",
    (U8, S8): "tdpbusd",
    (U8, U8): "tdpbuud",
}
"""Instructions of matrix registers for bytes."""

_MATRIX_TILES: tuple[Tile, ...] = (Tile(32, 2), Tile(16, 3), Tile(48, 1))
"""An instruction takes as long as three others, so that there must be three sums at least."""


@dataclass(frozen=True, slots=True)
class PackedProduct:
    """A product as the routine takes it.

    Attributes:
        outer: loops around the routine, slowest first.
        rows, columns, depth: axes of the two sides and of k, slowest first.
        algorithm: of a dot of f32 that may be less accurate than f32, "" if it may not.
    """

    outer: tuple[Axis, ...]
    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    depth: tuple[Axis, ...]
    exchanged: bool
    sources: tuple[DType, DType]
    result: DType
    algorithm: str = ""

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Rows, columns and depth."""
        m, n, k = (
            prod(axis.size for axis in axes) for axes in (self.rows, self.columns, self.depth)
        )
        return m, n, k

    @property
    def shared(self) -> str:
        """What threads share: the outermost loop (`outer`), `columns` or `rows`.

        Each thread packs all of the side that is not shared, so that is the smaller one.
        """
        rows, columns, _ = self.sizes
        if self.outer and self.outer[0].size >= MIN_OUTER_PIECES:
            return "outer"
        return "columns" if columns >= rows else "rows"

    @property
    def pieces(self) -> int:
        """In how many pieces threads share the product."""
        rows, columns, _ = self.sizes
        pieces = {"columns": -(-columns // COLUMN_PIECE), "rows": -(-rows // ROW_PIECE)}
        return self.outer[0].size if self.shared == "outer" else pieces[self.shared]

    @property
    def repeated_bytes(self) -> int:
        """What every thread writes into its tables and packs: the side that is not shared."""
        rows, columns, depth = self.sizes
        packed = {"outer": 0, "columns": rows * depth, "rows": columns * depth}
        size = self.result.storage_bytes
        return 8 * self.table_entries + packed[self.shared] * size

    @property
    def table_entries(self) -> int:
        rows, columns, depth = self.sizes
        return rows + columns + 2 * depth

    @property
    def scratch_bytes(self) -> int:
        """Room for the tables, a panel of rows and the packed columns, on every machine."""
        vectors = (MAX_ROWS + MAX_TILE) * (8 if self.result is F64 else 4)
        largest = 0
        for size, (columns, depth, keeps_depth) in (
            (8 if self.result is F64 else 4, _vector_blocks(self)),
            (self.sources[0].storage_bytes, _matrix_blocks(self)),
        ):
            depth = self.sizes[2] if keeps_depth else depth
            width = min(columns, self.sizes[1])
            padded = -(-depth // MAX_DEPTH_MULTIPLE) * MAX_DEPTH_MULTIPLE
            largest = max(largest, padded * (width * size + vectors))
        return 3 * ALIGNMENT + 8 * self.table_entries + largest


def packed_product(
    p: Product, sources: tuple[DType, DType], result: DType, algorithm: str = ""
) -> PackedProduct | None:
    """Return how the routine computes `p`; None if it cannot, or is not worth it."""
    if _total(sources, result) is None:
        return None
    exchanged = not any(axis.out == 1 for axis in p.columns)
    if exchanged:
        p = swapped(p)
        sources = (sources[1], sources[0])
    columns, other_columns = _chain(p.columns, 1)
    if not columns:
        return None
    rows, other_rows = _chain(p.rows, min((axis.out for axis in p.rows), default=1))
    if len(rows) > 1 and rows[-1].lhs == 1 and rows[-1].size >= MIN_LINES:
        rows, other_rows = rows[-1:], (*rows[:-1], *other_rows)
    outer = (*p.batch, *other_columns, *other_rows)
    if algorithm not in PARTS or (*sources, result) != (F32, F32, F32):
        algorithm = ""
    found = PackedProduct(outer, rows, columns, p.contracted, exchanged, sources, result, algorithm)
    m, n, k = found.sizes
    fewest = MIN_BYTE_ROWS if sources in _BYTE_PRODUCTS else MIN_ROWS
    is_worth = m >= fewest and n >= MIN_COLUMNS and k >= MIN_DEPTH and m * n * k >= MIN_WORK
    return found if is_worth else None


def _total(sources: tuple[DType, DType], result: DType) -> DType | None:
    """Return the type of the sums, None if there is no micro-kernel for it."""
    floats = (F32, BF16, F16)
    if result in floats and all(source in floats for source in sources):
        return F32
    if result is F64 and sources == (F64, F64):
        return F64
    if result is S32 and all(source in (S8, U8, S32) for source in sources):
        return S32
    return None


def _chain(axes: Sequence[Axis], step: int) -> tuple[tuple[Axis, ...], tuple[Axis, ...]]:
    """Return the axes that together are evenly spaced in the result by `step`, and the others."""
    chain: list[Axis] = []
    for axis in sorted(axes, key=lambda axis: axis.out):
        if axis.out == step:
            chain.insert(0, axis)
            step *= axis.size
    return tuple(chain), tuple(axis for axis in axes if axis not in chain)


def arithmetic_of(p: PackedProduct, target: Target) -> Arithmetic:
    """Return the best way to multiply that the machine has."""
    total = _total(p.sources, p.result)
    assert total is not None
    depth = p.sizes[2]
    wide = target.vector_bits == 512
    if wide and p.sources == (BF16, BF16) and target.has("amx-bf16"):
        return Arithmetic(f"matrix_{p.result.name}", F32, BF16, p.result, 2, "tdpbf16ps")
    if wide and p.algorithm and target.has("amx-bf16"):
        return Arithmetic("matrix_f32", F32, BF16, F32, 2, "tdpbf16ps")
    if wide and p.sources in _BYTE_PRODUCTS and target.has("amx-int8"):
        return Arithmetic("matrix", S32, S8, S32, 4, _BYTE_PRODUCTS[p.sources])
    if wide and p.sources == (BF16, BF16) and depth % 2 == 0 and target.has("avx512bf16"):
        return Arithmetic(f"bf16_{p.result.name}", F32, BF16, p.result, 2)
    if wide and p.sources == (S8, S8) and depth % 4 == 0 and target.has("avx512vnni"):
        return Arithmetic("s8", S32, S8, S32, 4)
    return Arithmetic(f"{total.name}_{p.result.name}", total, total, p.result)


def parts_of(p: PackedProduct, arithmetic: Arithmetic) -> int:
    """Return how many bf16 stand for an element."""
    return PARTS[p.algorithm] if p.algorithm and arithmetic.is_matrix else 1


def tile_of(p: PackedProduct, arithmetic: Arithmetic, target: Target) -> Tile:
    """Return the tile that wastes least at the edges."""
    rows, columns, _ = p.sizes
    width = lanes(arithmetic, target)
    tiles = tiles_of(arithmetic, target, direct=is_direct(p, arithmetic))

    def cost(tile: Tile) -> float:
        wide = tile.vectors * width
        padded = -(-rows // tile.rows) * tile.rows * -(-columns // wide) * wide
        down = tile.rows // SIDE if arithmetic.is_matrix else tile.rows
        return padded * (1 + 0.2 * (tile.vectors + down) / (down * tile.vectors))

    return min(tiles, key=cost)


def tiles_of(arithmetic: Arithmetic, target: Target, *, direct: bool) -> tuple[Tile, ...]:
    """Return the tiles to choose from; `direct` if rows are read where they are."""
    if arithmetic.is_matrix:
        return _MATRIX_TILES
    if target.vector_bits == 512 or target.triple.startswith("aarch64"):
        return _WIDE_DIRECT_TILES if direct else _WIDE_TILES  # there are 32 registers
    return _NARROW_DIRECT_TILES if direct else _NARROW_TILES


def is_direct(p: PackedProduct, arithmetic: Arithmetic) -> bool:
    """True if rows are better read where they are than packed."""
    return p.sources[0] is arithmetic.operand is arithmetic.total and _has_direct_columns(p)


def _has_direct_columns(p: PackedProduct) -> bool:
    most = DIRECT_RUN_COLUMNS if p.depth[-1].lhs == 1 else DIRECT_COLUMNS
    return p.sizes[1] <= most


def _are_in_place(p: PackedProduct) -> bool:
    """True if vectors read rows where they are, on every machine."""
    is_line = [axis.lhs for axis in p.rows] == [1]
    is_plain = p.sources[0] is _total(p.sources, p.result)
    return is_plain and not is_line and _has_direct_columns(p)


def _is_in_runs(p: PackedProduct) -> bool:
    """True if all of k lies in rows by runs."""
    return p.depth[-1].lhs == 1 and p.depth[-1].size % RUN_STEPS == 0


def blocks_of(p: PackedProduct, arithmetic: Arithmetic) -> tuple[int, int, bool]:
    """Return columns and steps of k of a block, and if all blocks of k are packed at once.

    Narrow results are written once, so that there is a single block of k.
    """
    return _matrix_blocks(p) if arithmetic.is_matrix else _vector_blocks(p)


def _vector_blocks(p: PackedProduct) -> tuple[int, int, bool]:
    depth = p.sizes[2]
    if p.result in _NARROW_FLOATS:
        fitting = max(PANEL_BYTES // (4 * depth) // MAX_TILE, 1) * MAX_TILE
        return min(fitting, COLUMN_BLOCK), depth, False
    most = DIRECT_DEPTH_BLOCK if p.sizes[1] <= DIRECT_COLUMNS else DEPTH_BLOCK
    if p.sizes[1] <= STREAMED_COLUMNS and _is_in_runs(p):
        most = STREAMED_DEPTH_BLOCK
    block = _even_part(depth, most, 16)
    bytes_ = 8 if p.result is F64 else 4
    columns = PANEL_BYTES // (depth * bytes_) // MAX_TILE * MAX_TILE
    packs_once = _are_in_place(p) or columns >= p.sizes[1]
    if block < depth and columns >= MIN_WHOLE_COLUMNS and packs_once:
        return min(columns, COLUMN_BLOCK), block, True
    return COLUMN_BLOCK, block, False


def _matrix_blocks(p: PackedProduct) -> tuple[int, int, bool]:
    bytes_ = p.sources[0].storage_bytes
    depth = p.sizes[2]
    if p.result not in _NARROW_FLOATS:
        depth = _even_part(depth, MATRIX_DEPTH_BYTES // bytes_, MAX_DEPTH_MULTIPLE)
    fitting = MATRIX_PANEL_BYTES // (depth * bytes_) // MAX_TILE * MAX_TILE
    return max(fitting, MIN_MATRIX_COLUMNS), depth, False


def _even_part(size: int, most: int, multiple: int) -> int:
    """Return the size of even parts of at most `most`, but for what makes it a multiple."""
    even = -(-size // -(-size // most))
    return -(-even // multiple) * multiple


def forms_of(p: PackedProduct, arithmetic: Arithmetic) -> tuple[str, str]:
    """Return how the rows and the columns lie in memory."""
    inner, group = p.depth[-1], arithmetic.group
    run = RUN * group
    if arithmetic.is_matrix:
        run = min(arithmetic.depth_multiple, p.sizes[2])

    def form(axes: Sequence[Axis], steps: list[int], inner_step: int) -> str:
        if steps == [1]:
            return LINES
        if group == 1 and steps and steps[-1] == 1 and axes[-1].size >= RUN:
            return PIECES
        if inner_step != 1 or inner.size < run:
            return ANY
        is_long = inner.size >= LONG_RUN * group and not arithmetic.is_matrix
        return LONG if is_long else RUNS

    left = form(p.rows, [axis.lhs for axis in p.rows], inner.lhs)
    if left != LINES and is_direct(p, arithmetic):
        left = DIRECT_RUNS if _is_in_runs(p) else DIRECT
    return left, form(p.columns, [axis.rhs for axis in p.columns], inner.rhs)
