"""The states of a module after XLA's passes, read from a dump instead of run as a pipeline."""

from __future__ import annotations

from collections.abc import Iterator

from hloc.analysis.diff.diff_rows import table_of
from hloc.web.pass_rows import Data, first_row, state_row
from hloc.web.walks import Walked
from repl.session import Session
from repl.state import State, snapshot_of
from repl.xla_dump import load_dump


def begin_replay(folder: str, module: str, session: Session) -> Walked:
    """Return `module` from the dump `folder`, ready to yield its states.

    Raises:
        HloError: the dump cannot be read, or has no such module.
    """
    states = load_dump(session, folder, module)
    first = next(states)
    return Walked(session, _rows(states), first_row(first))


def _rows(states: Iterator[State]) -> Iterator[Data]:
    """Yield the row of each state."""
    for state in states:
        assert state.parent is not None
        table = table_of(snapshot_of(state.parent), snapshot_of(state), state.events)
        yield state_row(state, table.summary())
