"""The comparison of a state with an unrelated module."""

from __future__ import annotations

from typing import Any

from hloc import driver
from hloc.analysis.diff.diff_rows import KIND_WORDS
from hloc.analysis.diff.file_diff import table_of_modules
from hloc.report.diff.diff_cells import diff_cells
from hloc.web.walks import Walked
from repl.state import State


def comparison(_walked: Walked, state: State, question: dict[str, Any]) -> dict[str, Any]:
    """Return the diff from a state to the module `other`, as `hloc diff` matches instructions.

    Raises:
        HloError: the other text has faults.
    """
    other = driver.parse_text(question["other"], name="the other module")
    table = table_of_modules(state.module, other)
    return {
        "summary": table.summary(),
        "instructions": [state.module.instruction_count, other.instruction_count],
        "rows": [] if table.is_empty else diff_cells(table),
        "marks": KIND_WORDS,
    }
