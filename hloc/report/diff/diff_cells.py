"""A diff as rows of cells for a page whose script draws them."""

from __future__ import annotations

from hloc.analysis.diff.diff_groups import Unchanged, items_of
from hloc.analysis.diff.diff_rows import DiffRow, DiffTable
from hloc.analysis.diff.module_diff import MOVED, SAME
from hloc.errors import printable

_CONTEXT = 3
_MOST_ROWS = 4000


def diff_cells(table: DiffTable) -> list[list[str]]:
    """Return rows: kind, text before, text after, rule; `#` begins a computation."""
    rows: list[list[str]] = []
    for computation in table.computations:
        head = ("ENTRY " if computation.is_entry else "") + computation.name
        rows.append(["#" + computation.kind, printable(head), "", printable(computation.note)])
        for item in items_of(computation, expand=True, context=_CONTEXT):
            if isinstance(item, Unchanged):
                rows.append(["...", "", "", ""])
            elif isinstance(item, DiffRow):
                rows.append(_cells(item))
    if len(rows) > _MOST_ROWS:
        rows = [*rows[:_MOST_ROWS], ["...", f"{len(rows) - _MOST_ROWS} more rows", "", ""]]
    return rows


def _cells(row: DiffRow) -> list[str]:
    """Return the cells of a row; a moved instruction is on the side where it is or was."""
    moved_in = row.kind == MOVED and row.after
    left = "" if moved_in or not row.before else row.before
    right = f"{row.after}   ({row.note})" if row.note and row.after else row.after
    cause = row.by if row.after or not row.note else f"{row.note} {row.by}".strip()
    return [row.kind, printable(left), printable(right), cause if row.kind != SAME else ""]
