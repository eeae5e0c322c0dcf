"""Schedules of packed gemms: choices that change the time of a gemm, and no bit of its result.

Each element of the result is one sum over each block of k, from its first step to its last, and the
sums of the blocks are added in order. Tiles, copies of the operands and the columns that are packed
at a time do not change that.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from hloc.codegen.cpu.emitters.gemm.micro_kernels.micro_kernel import accumulator_sets
from hloc.codegen.cpu.emitters.gemm.micro_kernels.tile_arithmetic import Arithmetic, Tile, lanes
from hloc.codegen.cpu.emitters.gemm.packed.gemm_routines import (
    AHEAD,
    IN_PLACE,
    LINES,
    PANELS,
    unroll_of,
)
from hloc.codegen.cpu.emitters.gemm.packed.gemm_tiles import (
    arithmetic_of,
    can_be_direct,
    direct_form,
    forms_of,
    packed_rows_form,
    tile_of,
    tiles_of,
)
from hloc.codegen.cpu.emitters.gemm.packed.packed_gemm import (
    BLOCKS_AHEAD,
    COLUMN_BLOCK,
    MAX_ROWS,
    PackedGemm,
    blocks_of,
    may_keep_rows,
    moves_columns,
)
from hloc.codegen.llvm.target import Target
from hloc.dtypes import F32
from hloc.lazy_dataclass import dataclass
from hloc.memory.heap import CACHE_LINE_BYTES, aligned_bytes

PANELS_AT_A_TIME, MAX_ROWS_BYTES = 4, 1 << 18
"""Panels of columns that all rows go through one after the other, if nothing has to be packed and
a block of k of the rows, of at most this many bytes, stays in the second-level cache.

Time over that of 1,024 columns, with 16 columns a panel: 0.88 for 128x768x768, 0.93 for
128x3072x768, 0.89 for 128x768x3072, 0.86 for 49x512x4608; 1.3 for 3136x64x256, which has too many
rows.
"""

AHEAD_BYTES, AHEAD_SHARE = 5 << 18, 2.5
"""Most bytes of a block of k of the rows and two blocks of the columns for the second of these to
be prefetched, and most of it over the size of the second-level cache, from which rows may fall."""

_BLOCKS = (64, 128, 256, 512, COLUMN_BLOCK, 4 * COLUMN_BLOCK)
"""Columns that may be packed at a time."""


@dataclass(frozen=True, slots=True)
class GemmSchedule:
    """One way to run a packed gemm.

    Attributes:
        tile: the part of the result in registers.
        width: columns of a tile.
        rows, columns: how the operands are read: forms of `gemm_routines`.
        block: columns that all rows go through at a time, a multiple of `width`.
        deep: steps of k of a block.
        span: steps of k that are packed at once: a block, or all.
        rounds: blocks of k add to sums in scratch memory, which are rounded to the result: those of
            a panel of rows if all of k is packed at once, else of all rows.
    """

    tile: Tile
    width: int
    rows: str
    columns: str
    block: int
    deep: int
    span: int
    rounds: bool = False

    @property
    def forms(self) -> tuple[str, str]:
        """How rows and columns are read."""
        return self.rows, self.columns

    def __str__(self) -> str:
        rows = "in place" if self.rows in IN_PLACE else "packed"
        steps = "" if self.span == self.deep else f" x {self.span} of k"
        return f"tile {self.tile.rows}x{self.width}, rows {rows}, {self.block} columns{steps}"


def modelled_schedule(p: PackedGemm, target: Target) -> GemmSchedule:
    """Return the schedule that the model of the machine chooses."""
    arithmetic = arithmetic_of(p, target)
    tile = tile_of(p, arithmetic, target)
    rows, _, depth = p.sizes
    width = tile.vectors * lanes(arithmetic, target)
    fitting, deep, keeps_depth = blocks_of(p, arithmetic, target.l2_bytes)
    rows_form, columns_form = forms_of(p, arithmetic, target)
    is_read = columns_form == PANELS and rows_form in IN_PLACE
    if is_read and rows * deep * p.sources[0].storage_bytes <= MAX_ROWS_BYTES:
        fitting = PANELS_AT_A_TIME * width
    span = depth if keeps_depth else deep
    columns, rounds = _whole_tiles(fitting, width, p), p.is_narrow and deep < depth
    return GemmSchedule(tile, width, rows_form, columns_form, columns, deep, span, rounds)


def schedules(p: PackedGemm, target: Target) -> tuple[GemmSchedule, ...]:
    """Return all schedules that fit the gemm's scratch memory, the one of the model first."""
    return tuple(dict.fromkeys((modelled_schedule(p, target), *_alternatives(p, target))))


def _alternatives(p: PackedGemm, target: Target) -> Iterator[GemmSchedule]:
    first, arithmetic = modelled_schedule(p, target), arithmetic_of(p, target)
    spans = (first.deep,) if first.columns == AHEAD else (first.deep, p.sizes[2])
    for rows, span, block in product(_row_forms(p, arithmetic), dict.fromkeys(spans), _BLOCKS):
        for tile in tiles_of(arithmetic, target, rows):
            width = tile.vectors * lanes(arithmetic, target)
            columns = _whole_tiles(block, width, p)
            deep, rounds = first.deep, first.rounds
            found = GemmSchedule(tile, width, rows, first.columns, columns, deep, span, rounds)
            if _is_equal(found, first, target) and scratch_of(found, p, arithmetic) <= (
                p.scratch_bytes
            ):
                yield found


def _row_forms(p: PackedGemm, arithmetic: Arithmetic) -> list[str]:
    packed = packed_rows_form(p, arithmetic)
    may_stay = packed != LINES and can_be_direct(p, arithmetic)
    return [packed, direct_form(p)] if may_stay else [packed]


def _is_equal(found: GemmSchedule, first: GemmSchedule, target: Target) -> bool:
    """True if a schedule sums as `first` does, and reads columns in panels of their width."""
    sets, wanted = (
        accumulator_sets(s.tile, unroll_of(s.rows, target), target) for s in (found, first)
    )
    return sets == wanted and (found.columns != PANELS or found.width == first.width)


def _whole_tiles(columns: int, width: int, p: PackedGemm) -> int:
    """Return `columns` in whole tiles, at least one and no more than the gemm has."""
    return min(max(columns // width, 1), -(-p.sizes[1] // width)) * width


def prefetches(s: GemmSchedule, p: PackedGemm, arithmetic: Arithmetic, target: Target) -> bool:
    """True if micro-kernels prefetch the columns that are read next, as the cache holds them."""
    is_read = s.columns == PANELS or (s.columns == LINES and moves_columns(p))
    if arithmetic.operand is not arithmetic.total or not is_read:
        return False
    rows_bytes = p.sizes[0] * s.deep * p.sources[0].storage_bytes
    columns_bytes = s.span * s.block * arithmetic.operand_bytes
    most = min(AHEAD_BYTES, AHEAD_SHARE * target.l2_bytes)
    return rows_bytes + 2 * columns_bytes <= most


def keeps_rows(s: GemmSchedule, p: PackedGemm, arithmetic: Arithmetic) -> bool:
    """True if rows are packed for the first block of columns only."""
    is_again = s.rows not in IN_PLACE and s.block < p.sizes[1]
    return is_again and may_keep_rows(p, arithmetic.operand_bytes)


def rows_at_once(s: GemmSchedule) -> int:
    """Return how many rows are packed at once: a tile, or several if they lie side by side."""
    return MAX_ROWS // s.tile.rows * s.tile.rows if s.rows == LINES else s.tile.rows


def panel_sizes(s: GemmSchedule, p: PackedGemm, arithmetic: Arithmetic) -> tuple[int, int, int]:
    """Return bytes of the tables, of the packed rows, and of the packed columns."""
    size, multiple = arithmetic.operand_bytes, arithmetic.depth_multiple
    deep, span, depth = (-(-steps // multiple) * multiple for steps in (s.deep, s.span, p.sizes[2]))
    group = rows_at_once(s)
    rows = group * (span if s.rows == LINES else deep)
    if keeps_rows(s, p, arithmetic):
        rows = depth * -(-p.sizes[0] // group) * group
    blocks = {PANELS: 0, AHEAD: BLOCKS_AHEAD}.get(s.columns, 1)
    columns = blocks * span * s.block * size
    return aligned_bytes(8 * p.table_entries), aligned_bytes(rows * size), columns


def scratch_of(s: GemmSchedule, p: PackedGemm, arithmetic: Arithmetic) -> int:
    """Return the bytes of scratch memory that a schedule needs."""
    tables, rows, columns = panel_sizes(s, p, arithmetic)
    sums_rows = s.tile.rows if s.span == p.sizes[2] else max(s.tile.rows, p.sizes[0])
    sums = sums_rows * sums_row_bytes(s)
    return CACHE_LINE_BYTES + tables + rows + columns + sums


def sums_row_bytes(s: GemmSchedule) -> int:
    """Return the row stride of sums that are rounded to the result, 0 if there are none.

    One more cache line keeps rows apart in the sets of the first-level cache.
    """
    return s.block * F32.storage_bytes + CACHE_LINE_BYTES if s.rounds else 0
