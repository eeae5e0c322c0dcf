"""Gemms by packed panels and micro-kernels: their axes and block sizes.

The columns of the result are contiguous and its rows have one stride. Other axes become loops
around the routine. Tables of offsets describe the operands.
"""

from __future__ import annotations

from dataclasses import field
from itertools import product
from math import prod

from hloc.codegen.cpu.emitters.gemm.micro_kernels.bf16_parts import PARTS
from hloc.codegen.cpu.emitters.gemm.micro_kernels.micro_kernel import RUN_STEPS
from hloc.codegen.cpu.emitters.gemm.micro_kernels.tile_arithmetic import Arithmetic
from hloc.codegen.kernels.gemm_problem import Axis
from hloc.dtypes import BF16, F16, F32, F64, S8, S32, U8, DType
from hloc.lazy_dataclass import dataclass
from hloc.memory.heap import CACHE_LINE_BYTES

DIRECT_COLUMNS, DIRECT_RUN_COLUMNS = 128, 4096
"""Most columns for which rows are read in place: of any rows, and of rows contiguous along k."""

DEPTH_BLOCK = 384
"""Steps of k per packed block; few enough for accurate sums of f32."""

DIRECT_DEPTH_BLOCK = 1024
"""The same for few columns, whose rows are read in place: long runs stream better.

Time relative to 512 steps: 0.90 for 1024x16x2048 of f32, 0.96 for 1024x32x2048, 0.95 for
1024x128x2048, 0.92 for 512x32x4096.
"""

STREAMED_COLUMNS, STREAMED_DEPTH_BLOCK = 16, 2048
"""The same for so few columns that the gemm is memory-bound, if k consists of runs: even and odd
steps have separate accumulators, so that no accumulator sums more terms.

Time relative to 1024 steps: 0.93 for 1024x16x2048 of f32.
"""

COLUMN_BLOCK = 1024
"""Columns that are packed at a time."""

PANEL_BYTES = 1 << 20
"""Most bytes of packed columns, half of a second-level cache: of a block of k, or of all of k if
that is packed at once.

Time relative to 1,024 columns, 1.5 MB: 0.89 for 1024x1024x1024 with a transposed left-hand side,
0.80 for 512x3072x768, 0.95 for 1000x1100x900.
"""

PANEL_SHARE, SHORT_ROWS = 0.75, 256
"""Part of the second-level cache that these columns may fill, for at most this many rows.

A larger panel goes to the third level and back, which counts where few rows use it, unless it holds
all columns: 1.07 for 24x512x512, 1.1 for 24x600x400 and 128x640x384 otherwise. Time relative
to 1 MB with a cache of 512 KB, AVX2: 0.73 to 0.91 for 49x2048x512, 0.86 to 0.89 for 96x2048x512,
0.91 to 0.95 for 128x1024x1024, 0.94 to 0.98 for 128x2048x2048, 0.97 to 1.0 for 128x768x3072; 1.0
for 128x512x2048 and 300x768x3072; 1.04 for 784x512x512, 1.06 for 2048x512x512, which read the rows
more often.
"""

AHEAD_ROWS_BYTES, AHEAD_COLUMNS_BYTES = 1 << 19, (1 << 20) // 3
"""Most bytes of a block of k of all rows, for gemms whose next columns are prefetched, and of a
block of columns. The columns take as many bytes as the rows, but from a sixth to a third of the
second-level cache, so that the next fit, too: with fewer, rows are read more often; with more, the
first columns, which nothing prefetches, are a larger part.

Time relative to larger blocks without prefetching, columns not in a cache: AVX-512, cache of 2 MB,
0.80 for 49x512x4608 and 49x2048x512, 0.82 for 24x768x768, 0.85 for 128x3072x768, 0.90 for
128x768x768, 0.95 for 128x768x3072, 0.97 for 300x768x768; AVX2, 512 KB, 0.83 for 49x512x4608, 0.92
for 197x768x3072, 0.91 for 300x768x768, 0.88 for 50x2048x2048. Small blocks of 1024x768x3072, whose
rows are then read from the third level, take 1.1.
"""

MIN_WHOLE_COLUMNS = 128
"""Fewest columns for which all of k is packed at once, so that the result is written once.

Time relative to blocks of k, f32: 0.84 for 1024x1024x1024, 0.97 for 2048x2048x2048. Rows must not
be packed again for every block of columns: 1.3 for a transposed left-hand side, 1.2 to 1.4 with
matrix registers. If the columns do not fit the second-level cache there must be twice as many:
blocks of k take 0.98 for 600x1200x600, 1.0 for 1000x1100x900, but 1.06 for 2048x1024x256.
"""

MATRIX_DEPTH_BYTES, MATRIX_PANEL_BYTES, MIN_MATRIX_COLUMNS = 512, 3 << 18, 128
"""The same for matrix registers: bytes of a row, of packed columns, and fewest columns.

Blocks of k of two panels then fit the first-level cache together.
"""

SHORT_MATRIX_PANEL_BYTES = 3 << 17
"""The same bytes of packed columns for at most `SHORT_ROWS` rows."""

MOST_UNDIVIDED_BYTES = 1024
"""Most bytes of a row that are one block of k for matrix registers, if the result is narrow: sums
of several blocks are in scratch memory until they are rounded.

Time relative to one block: 0.68 for 128x3072x768 of bf16, 0.80 for 128x768x768, 0.88 for
128x768x3072, 0.92 for 512x768x3072; 1.1 for 512x512x512, 1.5 for 1024x64x1024.
"""

KEPT_ROWS_BYTES, KEPT_LINES_BYTES = 5 << 18, 1 << 22
"""Most bytes of packed rows that stay for the next block of columns, instead of being packed again:
of any rows, and of those that lie side by side in memory, whose steps of k are far apart.

Time relative to packing them again: matrix registers 0.88 for 128x3072x768 of bf16, 0.95 for
197x3072x768, 1.3 for 1024x1024x1024; f32 with a transposed left-hand side 0.93 for 256x1024x1024
and 128x768x3072, 0.95 for 1024x1024x1024.
"""

MAX_TILE, MAX_ROWS = 64, 48
"""Most columns and rows of a tile."""

ROW_PIECES, COLUMN_PIECES = (32, 16), (64, 32, 16)
"""Granularity of the rows and columns that threads share; most tile sizes divide the first."""

FEWEST_PIECES = 8
"""Pieces are smaller where there would be fewer: of 196 rows two threads would have 128 and 68.

Time on two threads relative to the largest pieces, AVX2: 0.88 for 300x300x300 and 400x30x400, 0.91
for 24x600x400, 0.92 for 200x200x200, 0.9 for 196x80x200.
"""

MIN_OUTER_PIECES = 8
"""Fewest iterations of the outermost loop for which threads share it and not each gemm."""

MAX_DEPTH_MULTIPLE = 64
"""Panels may be padded to a multiple of this many steps of k."""

SPLIT_BYTES = PARTS * BF16.storage_bytes
"""Bytes of an f32 in parts of bf16."""

SPLIT_DEPTH, MAX_SPLIT_BLOCKS = 128, 1024
"""Most steps of k of a block of such elements, for gemms of at most this many blocks: longer sums
are as accurate as others only with longer blocks.

Time relative to 256 steps: 0.94 for 128x3072x768, 0.92 for 1024x1024x1024 and 128x768x3072.
"""

WHOLE_PARTS_BYTES = 9 << 17
"""Most bytes of columns in parts for which all of k is packed at once, so that each sum goes to
memory once, if more rows than for `packs_ahead` are not packed again for other columns.

Time relative to blocks of k: 0.64 for 19717x128x500, 0.89 for 784x256x512.
"""

BLOCKS_AHEAD = 2
"""Blocks of columns in memory if one is packed while the other is multiplied."""

BYTE_PRODUCTS = tuple(product((S8, U8), repeat=2))
"""Element types of both sides that matrix registers multiply as bytes."""

MAX_IN_ROWS_BYTES = 128
"""Most columns, times bytes of an element, for which matrix registers read rows in place.

Time relative to packed rows: 0.41 for 1000x31x1000 of s8, 0.58 for 1000x64x1000, 0.7 to 0.86 for
2048x128x2048 and 2048x128x1000, 1.35 for 2048x500x1000; 0.67 for 2048x17x500 of bf16, 1.12 for
1000x100x1000.
"""


@dataclass(frozen=True, slots=True)
class PackedGemm:
    """A gemm in the form of the routine.

    Attributes:
        outer: loops around the routine, slowest first.
        rows, columns, depth: axes of the two sides and of k, slowest first.
        sizes: number of rows, columns and steps of k.
        splits: elements are f32, and matrix registers of bf16 may multiply their parts.
        rows_in_parts: where they do, memory holds the rows in parts, a line of each for every
            `PART_STEPS` steps of k.
    """

    outer: tuple[Axis, ...]
    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    depth: tuple[Axis, ...]
    exchanged: bool
    sources: tuple[DType, DType]
    result: DType
    splits: bool = False
    rows_in_parts: bool = False
    sizes: tuple[int, int, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        sizes = [prod(axis.size for axis in axes) for axes in (self.rows, self.columns, self.depth)]
        object.__setattr__(self, "sizes", tuple(sizes))

    @property
    def is_narrow(self) -> bool:
        """True if the sums are rounded to the type of the result."""
        return self.result in (BF16, F16)

    @property
    def shared(self) -> str:
        """What threads share: the outermost loop (`outer`), `columns` or `rows`.

        Each thread packs all of the other side, so the larger side is shared.
        """
        is_outer = self.outer and self.outer[0].size >= MIN_OUTER_PIECES
        return "outer" if is_outer else self.larger_side

    @property
    def larger_side(self) -> str:
        """`columns` or `rows`."""
        rows, columns, _ = self.sizes
        return "columns" if columns >= rows else "rows"

    @property
    def pieces(self) -> int:
        """Number of pieces that threads share."""
        rows, columns, _ = self.sizes
        pieces = {"columns": -(-columns // self.column_piece), "rows": -(-rows // self.row_piece)}
        return self.outer[0].size if self.shared == "outer" else pieces[self.shared]

    @property
    def row_piece(self) -> int:
        """Rows of a piece."""
        return _piece(self.sizes[0], ROW_PIECES)

    @property
    def column_piece(self) -> int:
        """Columns of a piece; a panel that lies in memory is part of one."""
        return _piece(self.sizes[1], COLUMN_PIECES if len(self.columns) == 1 else COLUMN_PIECES[:1])

    @property
    def repeated_bytes(self) -> int:
        """Bytes that every thread writes: its tables, and the packed side that is not shared."""
        rows, columns, depth = self.sizes
        packed_rows = 0 if _are_in_place(self) and not self.splits else rows * depth
        packed = {"outer": 0, "columns": packed_rows, "rows": columns * depth}
        size = self.result.storage_bytes
        return 8 * self.table_entries + packed[self.shared] * size

    @property
    def table_entries(self) -> int:
        rows, columns, depth = self.sizes
        return rows + columns + 2 * depth

    @property
    def scratch_bytes(self) -> int:
        """Bytes for the tables, a panel of rows and the packed columns, on every machine."""
        vectors = (MAX_ROWS + MAX_TILE) * max(self._packed_sizes)
        largest = 0
        total = 8 if self.result is F64 else 4
        for size, (columns, depth, keeps_depth) in (
            (total, _vector_blocks(self, 2 * PANEL_BYTES)),
            (total, _large_blocks(self, 2 * PANEL_BYTES)),
            (total, _large_blocks(self, 0)),
            (_matrix_bytes(self), _matrix_blocks(self)),
        ):
            depth = self.sizes[2] if keeps_depth else depth
            width = min(columns, self.sizes[1])
            if size == SPLIT_BYTES and packs_ahead(self):
                width = BLOCKS_AHEAD * (width + MAX_TILE)
            padded = -(-depth // MAX_DEPTH_MULTIPLE) * MAX_DEPTH_MULTIPLE
            rows = MAX_ROWS if keeps_depth else max(MAX_ROWS, self.sizes[0])
            sums = rows * (4 * width + 8 * MAX_TILE) if self.is_narrow else 0
            largest = max(largest, padded * (width * size + vectors) + sums)
        if stays_in_rows(self):
            padded = -(-self.sizes[2] // MAX_DEPTH_MULTIPLE) * MAX_DEPTH_MULTIPLE
            columns = -(-self.sizes[1] // MAX_TILE) * MAX_TILE
            largest = max(largest, padded * (columns + MAX_ROWS) * self.sources[0].storage_bytes)
        kept = max(_kept_rows_bytes(self, size) for size in self._packed_sizes)
        return 3 * CACHE_LINE_BYTES + 8 * self.table_entries + largest + kept

    @property
    def _packed_sizes(self) -> set[int]:
        """Bytes of a packed element of a row: on some machines bytes are widened, f32 split."""
        total = 8 if self.result is F64 else 4
        others = {2} if self.sources in BYTE_PRODUCTS else set()
        return {total, _matrix_bytes(self)} | others


def _piece(size: int, pieces: tuple[int, ...]) -> int:
    """Return the largest piece of which there are enough, else the smallest."""
    return next((piece for piece in pieces if size >= FEWEST_PIECES * piece), pieces[-1])


def sums_type(sources: tuple[DType, DType], result: DType) -> DType | None:
    """Return the type of the sums, None if there is no micro-kernel for it."""
    floats = (F32, BF16, F16)
    if result in floats and all(source in floats for source in sources):
        return F32
    if result is F64 and sources == (F64, F64):
        return F64
    if result is S32 and all(source in (S8, U8, S32) for source in sources):
        return S32
    return None


def has_direct_columns(p: PackedGemm) -> bool:
    """True if there are few enough columns for reading rows in place."""
    most = DIRECT_RUN_COLUMNS if p.depth[-1].lhs == 1 else DIRECT_COLUMNS
    return p.sizes[1] <= most


def _are_in_place(p: PackedGemm) -> bool:
    """True if vectors read rows in place, on every machine."""
    is_plain = p.sources[0] is sums_type(p.sources, p.result)
    return is_plain and not _are_lines(p) and has_direct_columns(p)


def _are_lines(p: PackedGemm) -> bool:
    """True if the rows lie side by side in memory."""
    return [axis.lhs for axis in p.rows] == [1]


def may_keep_rows(p: PackedGemm, bytes_: int) -> bool:
    """True if rows are packed, in elements of `bytes_`, and are few enough to stay packed."""
    rows, _, depth = p.sizes
    most = KEPT_LINES_BYTES if _are_lines(p) else KEPT_ROWS_BYTES
    is_packed = bytes_ == SPLIT_BYTES or not _are_in_place(p)
    return is_packed and rows * depth * bytes_ <= most


def _kept_rows_bytes(p: PackedGemm, bytes_: int) -> int:
    """Return the size of rows that stay packed, in whole tiles of any size, 0 if they do not."""
    if not may_keep_rows(p, bytes_):
        return 0
    rows, _, depth = p.sizes
    padded = -(-depth // MAX_DEPTH_MULTIPLE) * MAX_DEPTH_MULTIPLE
    return (rows + MAX_ROWS) * padded * bytes_


def has_matrices(p: PackedGemm) -> bool:
    """True if matrix registers multiply the elements without conversion."""
    return p.sources in BYTE_PRODUCTS or p.sources == (BF16, BF16)


def stays_in_rows(p: PackedGemm) -> bool:
    """True if matrix registers read the rows in place, as packing would be most of the work."""
    lies_along_k = len(p.rows) == len(p.depth) == 1 and p.depth[0].lhs == 1
    return (
        has_matrices(p)
        and lies_along_k
        and p.sizes[1] * p.sources[0].storage_bytes <= MAX_IN_ROWS_BYTES
    )


def packs_ahead(p: PackedGemm) -> bool:
    """True if elements are split, and the next columns are packed while others are multiplied.

    Time relative to packing them before, with a block of columns: 0.89 for 128x768x768, 0.90 for
    128x3072x768; 1.0 for 512x768x768.
    """
    return p.splits and p.sizes[0] <= SHORT_ROWS


def is_in_runs(p: PackedGemm) -> bool:
    """True if all of k consists of contiguous runs in the rows."""
    return p.depth[-1].lhs == 1 and p.depth[-1].size % RUN_STEPS == 0


def moves_columns(p: PackedGemm) -> bool:
    """True if packing moves columns that lie side by side, with a stride between steps of k."""
    is_line = [axis.rhs for axis in p.columns] == [1] and len(p.depth) == 1
    return is_line and p.sources[1] is sums_type(p.sources, p.result)


def blocks_of(p: PackedGemm, arithmetic: Arithmetic, l2_bytes: int) -> tuple[int, int, bool]:
    """Return columns and steps of k of a block, and whether all blocks of k are packed at once.

    Narrow results are rounded once. So vectors have a single block of k for them; matrix registers
    add to sums in scratch memory: those of all rows, if these are few, else those of a panel of
    rows, and all blocks of k are packed at once.

    Args:
        p: the gemm.
        arithmetic: how units are multiplied.
        l2_bytes: size of the second-level cache.
    """
    if arithmetic.is_matrix:
        return _matrix_blocks(p)
    return _vector_blocks(p, l2_bytes)


def _vector_blocks(p: PackedGemm, l2_bytes: int) -> tuple[int, int, bool]:
    if p.is_narrow:
        return _large_blocks(p, l2_bytes)
    block, bytes_ = _depth_block(p), 8 if p.result is F64 else 4
    rows_bytes = p.sizes[0] * block * p.sources[0].storage_bytes
    is_small = rows_bytes <= min(AHEAD_ROWS_BYTES, l2_bytes)
    if is_small and moves_columns(p) and (_are_in_place(p) or may_keep_rows(p, bytes_)):
        fitting = min(max(rows_bytes, l2_bytes // 6), l2_bytes // 3, AHEAD_COLUMNS_BYTES)
        return fitting // (block * bytes_), block, False
    return _large_blocks(p, l2_bytes)


def _depth_block(p: PackedGemm) -> int:
    """Return the steps of k of a block for vectors, if the result has the type of the sums."""
    most = DIRECT_DEPTH_BLOCK if p.sizes[1] <= DIRECT_COLUMNS else DEPTH_BLOCK
    if p.sizes[1] <= STREAMED_COLUMNS and is_in_runs(p):
        most = STREAMED_DEPTH_BLOCK
    return _even_part(p.sizes[2], most, 16)


def _large_blocks(p: PackedGemm, l2_bytes: int) -> tuple[int, int, bool]:
    """Return the blocks of a gemm whose columns are not prefetched."""
    rows, all_columns, depth = p.sizes
    if p.is_narrow:
        fitting = max(PANEL_BYTES // (4 * depth) // MAX_TILE, 1) * MAX_TILE
        return min(fitting, COLUMN_BLOCK), depth, False
    block, bytes_ = _depth_block(p), 8 if p.result is F64 else 4
    is_one_panel = all_columns * depth * bytes_ <= PANEL_BYTES
    cached = PANEL_BYTES if is_one_panel else int(PANEL_SHARE * l2_bytes)
    most_bytes = min(PANEL_BYTES, cached) if rows <= SHORT_ROWS else PANEL_BYTES
    columns = most_bytes // (depth * bytes_) // MAX_TILE * MAX_TILE
    fewest = MIN_WHOLE_COLUMNS if most_bytes <= cached else 2 * MIN_WHOLE_COLUMNS
    packs_once = _are_in_place(p) or columns >= all_columns
    if block < depth and columns >= fewest and packs_once:
        return min(columns, COLUMN_BLOCK), block, True
    fitting = max(PANEL_BYTES // (block * bytes_) // MAX_TILE, 1) * MAX_TILE
    return _even_part(all_columns, min(fitting, COLUMN_BLOCK), MAX_TILE), block, False


def _matrix_bytes(p: PackedGemm) -> int:
    """Return the bytes of a packed element for matrix registers."""
    return SPLIT_BYTES if p.splits else p.sources[0].storage_bytes


def _matrix_blocks(p: PackedGemm) -> tuple[int, int, bool]:
    """Return columns and depth of a block for matrix registers, and whether it keeps all of k.

    The packed block of the right-hand side shall fit into the cache together with a strip of rows.
    """
    bytes_ = _matrix_bytes(p)
    columns, depth = p.sizes[1:]
    is_short = p.sizes[0] <= SHORT_ROWS
    keeps_depth = p.is_narrow and not is_short
    if p.splits:
        is_long = depth > SPLIT_DEPTH * MAX_SPLIT_BLOCKS
        most = DEPTH_BLOCK if is_long else SPLIT_DEPTH
        block = _even_part(depth, most, MAX_DEPTH_MULTIPLE)
        padded = -(-columns // MAX_TILE) * MAX_TILE
        may_keep = not packs_ahead(p) and not _are_lines(p)
        if may_keep and padded * depth * bytes_ <= WHOLE_PARTS_BYTES:
            return padded, block, True
    else:
        is_whole = p.is_narrow and depth * bytes_ <= MOST_UNDIVIDED_BYTES
        most = MATRIX_DEPTH_BYTES // bytes_
        block = depth if is_whole else _even_part(depth, most, MAX_DEPTH_MULTIPLE)
    span = depth if keeps_depth else block
    most_bytes = SHORT_MATRIX_PANEL_BYTES if is_short else MATRIX_PANEL_BYTES
    fitting = most_bytes // (span * bytes_) // MAX_TILE * MAX_TILE
    return max(fitting, MIN_MATRIX_COLUMNS), block, keeps_depth


def _even_part(size: int, most: int, multiple: int) -> int:
    """Return the size of equal parts of at most `most`, rounded up to a multiple."""
    even = -(-size // -(-size // most))
    return -(-even // multiple) * multiple
