"""The runs of passes as the page lists them: what each did, and the state that it made."""

from __future__ import annotations

from typing import Any, TypeAlias

from hloc.errors import printable
from hloc.report.measure_text import effect_text
from repl.applying import Applied
from repl.state import State
from repl.state_diff import measure

Data: TypeAlias = dict[str, Any]


def first_row(state: State) -> Data:
    """Return what the list says of the module as it was given."""
    own = measure(state)
    return {"instructions": state.instructions, "effect": effect_text(own, own)}


def pass_row(applied: Applied) -> Data:
    """Return what the list says of a run of a pass; `state` is None if it changed nothing."""
    state = applied.state
    if state is None:
        note = printable(applied.no_gain)
        return {"pass": applied.what, "ms": applied.wall_ms, "state": None, "note": note}
    return {**state_row(state, applied.diff.summary()), "pass": applied.what}


def state_row(state: State, summary: str) -> Data:
    """Return what the list says of a state that was made from another."""
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
