"""A difference of modules as a small HTML table, for notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from hloc.pictures.html_text import MOST_ROWS, table

if TYPE_CHECKING:
    from hloc.analysis.module_diff import ComputationDiff, ModuleDiff, Row

_CLASSES = {"+": "add", "-": "gone", " ": "quiet"}


def diff_html(diff: ModuleDiff) -> str:
    """Return the rows of `diff` that are not the same, at most `MOST_ROWS`, with their rules.

    Glyph and colour both show the kind. All texts are escaped.
    """
    rows = [_row(row) for row in diff.header]
    for computation in diff.computations:
        rows += _computation(computation)
    left = len(rows) - MOST_ROWS
    if left > 0:
        rows = [*rows[:MOST_ROWS], f'<tr><td class="quiet">... {left:,} more rows</td></tr>']
    return table(escape(diff.summary()), rows)


def _computation(diff: ComputationDiff) -> list[str]:
    kind = "ENTRY " if diff.is_entry else ""
    head = f"{diff.kind} {kind}{diff.name}".strip()
    rows = [_row(row) for row in diff.rows if row.kind != " "]
    return [f'<tr><td colspan="2"><b>{escape(head)}</b></td></tr>', *rows]


def _row(row: Row) -> str:
    name = _CLASSES.get(row.kind, "other")
    by = f"← {row.by}" if row.by else ""
    text = f'<td class="{name}">{escape(row.kind)} {escape(row.text)}</td>'
    return f'<tr>{text}<td class="quiet">{escape(by)}</td></tr>'
