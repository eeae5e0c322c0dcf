"""The common form of all JSON reports; docs/json.md lists the fields of each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hloc.errors import Diagnostic

SCHEMA_VERSION = 1
"""Increased when a field changes its meaning or is removed; fields may be added at any time."""


def json_report(report: str, data: Mapping[str, Any]) -> str:
    """Return the text of a report, headed by the version of its schema and its name."""
    return json.dumps({"schema": SCHEMA_VERSION, "report": report, **data}, indent=1)


def diagnostic_data(diagnostic: Diagnostic) -> dict[str, Any]:
    """Return the JSON of a diagnostic; line and column count from 1, None without a place."""
    file, line, column, length = None, None, None, None
    if diagnostic.span is not None:
        source, start, end = diagnostic.span
        line, column = source.line_column(min(start, len(source.text)))
        file, length = source.name, max(1, end - start)
    return {
        "code": diagnostic.code,
        "message": diagnostic.message,
        "file": file,
        "line": line,
        "column": column,
        "length": length,
        "notes": list(diagnostic.notes),
    }
