"""The plain text diff of two states, for differences of names and print order.

The diff by instruction identity is `hloc/analysis/diff/module_diff.py`; the command line uses it
too.
"""

from __future__ import annotations

from difflib import unified_diff
from typing import TYPE_CHECKING

from hloc.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from repl.state import State


@dataclass(frozen=True, slots=True)
class TextDiff:
    """Lines of a unified diff of the short print of two states."""

    lines: tuple[str, ...]


def text_diff(before: State, after: State) -> TextDiff:
    """Return the unified diff of the modules as printed."""
    old, new = (
        state.module.to_text("short", large_constants=False).splitlines()
        for state in (before, after)
    )
    return TextDiff(tuple(unified_diff(old, new, before.label, after.label, lineterm="")))
