"""Time travel and comparison."""

from __future__ import annotations

from hloc.errors import HloError
from repl.commands.row import Command, Results, number_of, split_flags
from repl.results import HistoryTree, Message, Moved
from repl.session import Session
from repl.state_diff import diff_command


def _goto(session: Session, rest: str) -> Results:
    yield Moved(session.tree.goto(rest), "goto")


def _mark(session: Session, rest: str) -> Results:
    if not rest:
        names = [f"{name} = {state.label}" for name, state in session.tree.marks.items()]
        yield Message(", ".join(names) or "no marks")
        return
    state = session.tree.mark(rest)
    yield Message(f"{state.label} is also called {rest}")


def _branch(session: Session, rest: str) -> Results:
    state = session.tree.mark(rest)
    yield Message(f"{state.label} is also called {rest}; passes after `goto {rest}` start a branch")


def _history(session: Session, rest: str) -> Results:
    words, flags = split_flags(rest, ("--tree",), "history [--tree]")
    if words:
        raise HloError(f"cannot read {rest!r}", notes=("use: history [--tree]",))
    entries = session.tree.entries()
    yield HistoryTree(entries) if flags else entries


ROWS = (
    Command("undo", "undo [N]", "go back by N states",
            lambda session, rest: Moved(session.tree.undo(number_of(rest)), "undo"), "", True),
    Command("redo", "redo [N]", "go forward by N states",
            lambda session, rest: Moved(session.tree.redo(number_of(rest)), "redo"), "", True),
    Command("goto", "goto sN | MARK", "go to a state", _goto, "state", True, question="go where?"),
    Command("mark", "mark [NAME]", "name the current state, or list the names", _mark, "",
            True),
    Command("branch", "branch NAME", "mark the current state as the start of a branch", _branch,
            "", True, question="call the branch what?"),
    Command("history", "history [--tree]", "show the tree of states", _history),
    Command(
        "diff",
        "diff [A] [B] [@comp|%name] [--unified|--side|--stat|--json|--text] "
        "[--expand] [--all] [--names] [--order]",
        "compare two states (default: before and after the last command)",
        diff_command,
        "state",
    ),
)  # fmt: skip
