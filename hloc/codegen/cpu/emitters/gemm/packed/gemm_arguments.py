"""The integer arguments of the loops around micro-kernels (`gemm_loops`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from hloc.codegen.kernels.gemm_problem import Axis
from hloc.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class GemmArguments:
    """Sizes, blocks and strides of a gemm.

    Attributes:
        rows, columns, depth: size of the gemm.
        products: number of gemms, the product of the sizes of `outer`.
        outer_step, outer_rest, row_step ...: a thread's part from `begin` to `end` is that from
            `begin * step` to `end * step + rest`; 0 and the size for what is not shared.
        deep: steps of k of a block.
        span: steps of k that are packed at once.
        block: columns that are packed at once.
        height, width: of a tile.
        group: rows that are packed at once if they lie side by side.
        operand_bytes, result_bytes, lhs_bytes, rhs_bytes: sizes of elements.
        multiple: steps of k per iteration of the micro-kernel.
        row_distance: row stride of the result in elements.
        panel, panels: offsets of packed rows and columns, in bytes after the tables.
        sums, sums_row_bytes: offset of the sums that are rounded to the result, in bytes after the
            tables, and their row stride; 0 if the sums are in the result.
        kept_sums_row_bytes: row stride of the sums if they are those of all rows, else 0.
        kept_row_bytes: row stride of packed rows that stay for the next columns, else 0.
        packed_step_bytes: stride of steps of k in packed rows, 0 if they are those of one block.
        ahead_row_bytes: distance of steps of k in memory if the columns that are packed next are
            prefetched, else 0.
        stretch: steps of k between prefetches.
        block_bytes: distance of the two blocks of packed columns if one is packed ahead, else 0.
    """

    rows: int
    columns: int
    depth: int
    products: int
    outer_step: int
    outer_rest: int
    row_step: int
    row_rest: int
    column_step: int
    column_rest: int
    deep: int
    span: int
    block: int
    height: int
    width: int
    group: int
    operand_bytes: int
    result_bytes: int
    lhs_bytes: int
    rhs_bytes: int
    multiple: int
    row_distance: int
    panel: int
    panels: int
    sums: int
    sums_row_bytes: int
    kept_sums_row_bytes: int
    kept_row_bytes: int
    packed_step_bytes: int
    ahead_row_bytes: int
    stretch: int
    block_bytes: int


FIELDS = tuple(field.name for field in fields(GemmArguments))
"""The first arguments."""

AXES = tuple(f"{name}_axes" for name in ("outer", "row", "column", "left", "right"))
"""For each, two arguments: the position of its axes among the arguments, and their number."""


def gemm_arguments(
    n: GemmArguments,
    outer: Sequence[Axis],
    rows: Sequence[Axis],
    columns: Sequence[Axis],
    depth: Sequence[Axis],
) -> list[int]:
    """Return all integer arguments; axes are given slowest first."""
    lists = (
        [x for axis in reversed(outer) for x in (axis.size, axis.lhs, axis.rhs, axis.out)],
        [x for axis in reversed(rows) for x in (axis.size, axis.lhs)],
        [x for axis in reversed(columns) for x in (axis.size, axis.rhs)],
        [x for axis in reversed(depth) for x in (axis.size, axis.lhs)],
        [x for axis in reversed(depth) for x in (axis.size, axis.rhs)],
    )
    counts = (len(outer), len(rows), len(columns), len(depth), len(depth))
    head = [getattr(n, name) for name in FIELDS]
    place = len(head) + 2 * len(lists)
    tail: list[int] = []
    for numbers, count in zip(lists, counts, strict=True):
        head += [place + len(tail), count]
        tail += numbers
    return head + tail
