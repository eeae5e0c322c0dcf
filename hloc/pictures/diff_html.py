"""A difference of modules as a small HTML table, for notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from hloc.pictures.html_text import MOST_ROWS, table

if TYPE_CHECKING:
    from hloc.analysis.diff.diff_rows import ComputationRows, DiffTable

_CLASSES = {"+": "add", "-": "gone", " ": "quiet"}


def diff_html(diff: DiffTable) -> str:
    """Return the changed rows of `diff`, at most `MOST_ROWS`, with their rules.

    Glyph and colour both show the kind. All texts are escaped.
    """
    rows = [_row(row.kind, row.text, "") for row in diff.header]
    for computation in diff.computations:
        rows += _computation(computation)
    left = len(rows) - MOST_ROWS
    if left > 0:
        rows = [*rows[:MOST_ROWS], f'<tr><td class="quiet">... {left:,} more rows</td></tr>']
    return table(escape(diff.summary()), rows)


def _computation(diff: ComputationRows) -> list[str]:
    kind = "ENTRY " if diff.is_entry else ""
    head = f"{diff.kind} {kind}{diff.name}   {diff.note}".strip()
    rows = [
        _row(row.kind, f"{row.text}   ({row.note})" if row.note else row.text, row.by)
        for row in diff.rows
        if row.kind != " "
    ]
    return [f'<tr><td colspan="2"><b>{escape(head)}</b></td></tr>', *rows]


def _row(kind: str, line: str, by: str) -> str:
    name = _CLASSES.get(kind, "other")
    cause = f"← {by}" if by else ""
    text = f'<td class="{name}">{escape(kind)} {escape(line)}</td>'
    return f'<tr>{text}<td class="quiet">{escape(cause)}</td></tr>'
