"""Diffs of modules as lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hloc.analysis.module_diff import (
    ADDED,
    KIND_NAMES,
    MOVED,
    REMOVED,
    SAME,
    ComputationDiff,
    ModuleDiff,
    Row,
    Snapshot,
)
from hloc.errors import printable
from hloc.report.text import Paint, plural

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
    for row in near_changes(rows, context):
        if row is None:
            if context:
                yield paint.dim("  ...")
            continue
        by = paint.dim(f"   <- {row.by}") if row.by else ""
        yield f"  {paint.diff_line(f'{row.kind} {printable(row.text)}')}{by}"


def near_changes(rows: Sequence[Row], context: int) -> Iterator[Row | None]:
    """Yield the changed rows and `context` others around each; None where some are left out."""
    changed = [number for number, row in enumerate(rows) if row.kind != SAME]
    shown = {
        number
        for middle in changed
        for number in range(middle - context, middle + context + 1)
        if 0 <= number < len(rows)
    }
    last = -1
    for number in sorted(shown):
        if number > last + 1:
            yield None
        last = number
        yield rows[number]


# ---------------------------------------------------------------- side by side


def side_lines(
    found: ModuleDiff, before: Snapshot, paint: Paint, width: int, context: int = 0
) -> list[str]:
    """Return the diff in two columns, what was on the left.

    Args:
        found: the diff.
        before: the earlier state, which has the texts of the left side.
        paint: colours.
        width: columns of the terminal.
        context: unchanged rows shown before and after changed ones.
    """
    old = {line.uid: line.text() for c in before for line in c.lines}
    half = max(20, (width - 3) // 2)
    lines: list[str] = []
    for computation in found.computations:
        head = _head(computation)
        lines.append(paint.diff_line(head))
        for row in near_changes(computation.rows, context):
            if row is None:
                lines.append(paint.dim("  ..."))
                continue
            left, right = sides_of(row, old)
            shown = f"{_fit(row.kind, left, half)} │ {_fit(row.kind, right, half).rstrip()}"
            lines.append(paint.diff_line(shown))
    return lines


def sides_of(row: Row, old: dict[int, str]) -> tuple[str, str]:
    """Return the text of a row before and after, "" where it did not stand; `old` by uid."""
    if row.kind == ADDED:
        return "", row.text
    if row.kind == REMOVED or row.uid not in old:
        return old.get(row.uid, row.text), ""
    was = f"   (was {row.was})"
    new = row.text.removesuffix(was) if row.kind != MOVED else row.text
    return old[row.uid], new


def _fit(kind: str, text: str, width: int) -> str:
    shown = f"{kind} {printable(text)}" if text else ""
    return shown.ljust(width) if len(shown) <= width else shown[: width - 3] + "..."


# ---------------------------------------------------------------- data


def diff_data(found: ModuleDiff) -> dict[str, object]:
    """Return a diff as JSON has it: counts, header, and the rows that changed."""
    return {
        "counts": {name: found.count(k) for k, name in KIND_NAMES.items() if k != SAME},
        "header": [row_data(row) for row in found.header],
        "computations": [
            {
                "name": computation.name,
                "kind": KIND_NAMES[computation.kind],
                "entry": computation.is_entry,
                "rows": [row_data(row) for row in computation.rows if row.kind != SAME],
            }
            for computation in found.computations
        ],
    }


def row_data(row: Row) -> dict[str, str]:
    """Return a row as JSON has it."""
    data = {"kind": KIND_NAMES[row.kind], "name": row.name, "text": row.text}
    data |= {"was": row.was} if row.was else {}
    return data | ({"by": row.by} if row.by else {})
