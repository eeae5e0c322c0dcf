"""Diffs of modules as lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hloc.analysis.module_diff import SAME, ComputationDiff, ModuleDiff, Row
from hloc.cli.text import Paint, plural
from hloc.errors import printable

MAX_ROWS = 400


def diff_lines(
    found: ModuleDiff, paint: Paint, limit: int = MAX_ROWS, context: int = 0
) -> list[str]:
    """Return the changed rows of a diff as text.

    Args:
        found: the diff.
        paint: colours.
        limit: most lines; a last line says how many are left out. 0 for all.
        context: unchanged rows shown before and after changed ones.
    """
    lines = [paint.diff_line(f"{row.kind} {printable(row.text)}") for row in found.header]
    for computation in found.computations:
        lines.append(paint.diff_line(_head(computation)))
        lines += _rows(computation.rows, paint, context)
    if limit and len(lines) > limit:
        lines = [*lines[:limit], f"... {len(lines) - limit} more lines"]
    return lines


def _head(computation: ComputationDiff) -> str:
    entry = "ENTRY " if computation.is_entry else ""
    head = f"{computation.kind} {entry}{computation.name}"
    if computation.kind == SAME:
        return head
    return f"{head} ({plural(len(computation.rows), 'instruction')})"


def _rows(rows: Sequence[Row], paint: Paint, context: int) -> Iterator[str]:
    changed = [number for number, row in enumerate(rows) if row.kind != SAME]
    shown = {
        number
        for middle in changed
        for number in range(middle - context, middle + context + 1)
        if 0 <= number < len(rows)
    }
    last = -1
    for number in sorted(shown):
        if context and number > last + 1:
            yield paint.dim("  ...")
        last = number
        row = rows[number]
        by = paint.dim(f"   <- {row.by}") if row.by else ""
        yield f"  {paint.diff_line(f'{row.kind} {printable(row.text)}')}{by}"
