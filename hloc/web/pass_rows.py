"""The rows of the page's list of passes: what each pass did, and the state after it."""

from __future__ import annotations

from typing import Any, TypeAlias

from hloc.errors import printable
from hloc.report.measure_text import effect_text
from repl.applying import Applied
from repl.state import State
from repl.state_diff import measure

Data: TypeAlias = dict[str, Any]


def first_row(state: State) -> Data:
    """Return the row of the original module."""
    own = measure(state)
    return {"instructions": state.instructions, "effect": effect_text(own, own)}


def pass_row(applied: Applied) -> Data:
    """Return the row of a pass; its `state` is None if it changed nothing."""
    state = applied.state
    if state is None:
        note = printable(applied.no_gain)
        return {"pass": applied.what, "ms": applied.wall_ms, "state": None, "note": note}
    return {**state_row(state, applied.diff.summary()), "pass": applied.what}


def state_row(state: State, summary: str) -> Data:
    """Return the row of a state after a pass."""
    assert state.parent is not None
    return {
        "pass": printable(state.how),
        "ms": state.wall_ms,
        "state": state.number,
        "rules": [[by, count] for by, count in state.rewrites],
        "rewrites": state.rewrite_count,
        "effect": effect_text(measure(state.parent), measure(state), "→"),
        "summary": summary,
        "faults": len(state.faults),
    }
