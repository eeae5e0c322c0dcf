"""A diff as JSON."""

from __future__ import annotations

from hloc.analysis.diff.diff_rows import KIND_WORDS, ComputationRows, DiffRow, DiffTable
from hloc.analysis.diff.module_diff import SAME, Row


def diff_data(table: DiffTable) -> dict[str, object]:
    """Return the counts of rows by kind, the header, and the rows that changed."""
    return {
        "counts": {KIND_WORDS[kind]: count for kind, count in table.counts().items()},
        "header": [_header_data(row) for row in table.header],
        "computations": [_computation_data(c) for c in table.computations],
    }


def _header_data(row: Row) -> dict[str, str]:
    data = {"kind": KIND_WORDS[row.kind], "name": row.name, "text": row.text}
    return data | ({"was": row.was} if row.was else {})


def _computation_data(computation: ComputationRows) -> dict[str, object]:
    return {
        "name": computation.name,
        "kind": KIND_WORDS[computation.kind],
        "entry": computation.is_entry,
        "note": computation.note,
        "rows": [_row_data(row) for row in computation.rows if row.kind != SAME],
    }


def _row_data(row: DiffRow) -> dict[str, str]:
    data = {"kind": KIND_WORDS[row.kind], "name": row.name}
    parts = {"before": row.before, "after": row.after, "by": row.by, "note": row.note}
    return data | {key: text for key, text in parts.items() if text}
