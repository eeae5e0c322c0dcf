"""The tree of states, the current one in it, and the names that users give to states."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field

from hloc.errors import HloError
from hloc.lazy_dataclass import dataclass
from hloc.near_names import near_name_notes
from hloc.report.text import plural
from repl.state import State

_LABEL = re.compile(r"s?(\d{1,9})((?:\+\d{1,9})*)")
_MARK = re.compile(r"[A-Za-z_][\w.-]{0,60}")


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One state in the drawing of the tree.

    Attributes:
        depth: branches to its left.
        names: marks that users have set on it.
    """

    state: State
    is_current: bool
    depth: int
    names: tuple[str, ...] = ()


@dataclass(slots=True)
class History:
    """The states by number, the current one, and the targets of `redo`.

    Attributes:
        states: the numbered ones, in the order they were made.
        marks: names of states.
    """

    states: list[State] = field(default_factory=list)
    marks: dict[str, State] = field(default_factory=dict)
    _current: State | None = None
    _visited: dict[State, State] = field(default_factory=dict)  # parent -> child that redo takes
    _inside: dict[str, State] = field(default_factory=dict)  # states in the middle of a pass

    @property
    def is_empty(self) -> bool:
        return self._current is None

    @property
    def current(self) -> State:
        """The current state; raises HloError before anything is loaded."""
        if self._current is None:
            raise HloError("no module is loaded", notes=("use: load FILE",))
        return self._current

    def clear(self) -> None:
        """Remove all states."""
        self.states.clear()
        self.marks.clear()
        self._visited.clear()
        self._inside.clear()
        self._current = None

    def enter(self, state: State) -> State:
        """Add a state and make it the current one."""
        if state.base is None:
            self.states.append(state)
        else:
            self._inside[state.label] = state
        if state.parent is not None:
            self._visited[state.parent] = state
        self._current = state
        return state

    def find(self, label: str) -> State:
        """Return the state called `s3`, `s3+1`, `prev`, `$`, or by a mark.

        Raises:
            HloError: there is none of that name.
        """
        if label in ("$", "."):
            return self.current
        if label == "prev":
            parent = self.current.parent
            if parent is None:
                raise HloError(
                    f"{self.current.label} is the loaded module; there is no earlier state"
                )
            return parent
        if label in self.marks:
            return self.marks[label]
        found = _LABEL.fullmatch(label.rstrip("✗"))
        if found and found[2]:
            inside = self._inside.get(f"s{int(found[1])}{found[2]}")
            if inside is not None:
                return inside
        elif found and int(found[1]) < len(self.states):
            return self.states[int(found[1])]
        known = (
            f"states are s0 to s{len(self.states) - 1}" if self.states else "load a module first"
        )
        raise HloError(
            f"there is no state {label!r}; {known}",
            notes=near_name_notes(label, list(self.marks)),
        )

    def undo(self, count: int = 1) -> State:
        """Go back by `count` states."""
        state = self.current
        for done in range(count):
            if state.parent is None:
                raise HloError(_too_few("undo", done))
            self._visited[state.parent] = state
            state = state.parent
        self._current = state
        return state

    def redo(self, count: int = 1) -> State:
        """Go forward by `count` states, along the branch that was undone last."""
        state = self.current
        for done in range(count):
            if state not in self._visited:
                raise HloError(_too_few("redo", done))
            state = self._visited[state]
        self._current = state
        return state

    def goto(self, label: str) -> State:
        """Make the state called `label` the current one."""
        self._current = self.find(label)
        return self._current

    def mark(self, name: str) -> State:
        """Give the current state the mark `name`, which may move from another state.

        Raises:
            HloError: the name is not valid, or is that of a state.
        """
        state = self.current
        if not _MARK.fullmatch(name) or _LABEL.fullmatch(name) or name == "prev":
            raise HloError(f"expected a name such as `before-fusion`, found {name!r}")
        self.marks[name] = state
        return state

    def entries(self) -> tuple[HistoryEntry, ...]:
        """Return all states, children after parents, the first child in the parent's column."""
        children: dict[State, list[State]] = {}
        for state in self._all():
            if state.parent is not None:
                children.setdefault(state.parent, []).append(state)
        names: dict[State, tuple[str, ...]] = {}
        for name, state in self.marks.items():
            names[state] = (*names.get(state, ()), name)
        found: list[HistoryEntry] = []
        stack = [(state, 0) for state in self.states[:1]]
        while stack:
            state, depth = stack.pop()
            here = state is self._current
            found.append(HistoryEntry(state, here, depth, names.get(state, ())))
            first, *others = children.get(state, [None])
            if first is not None:
                stack.append((first, depth))
            stack.extend((other, depth + 1) for other in reversed(others) if other is not None)
        return tuple(found)

    def _all(self) -> Iterator[State]:
        """Yield the numbered states and those inside a pass that lead to one or are current."""
        leaves = [*self.states, *([self._current] if self._current else [])]
        yield from dict.fromkeys(state for leaf in leaves for state in _inside_first(leaf))


def _inside_first(state: State) -> tuple[State, ...]:
    """Return `state` after the states inside a pass that it was made from."""
    found = [state]
    while found[-1].parent is not None and found[-1].parent.base is not None:
        found.append(found[-1].parent)
    return tuple(reversed(found))


def _too_few(what: str, count: int) -> str:
    """Return the error for undoing or redoing more than `count` states."""
    if not count:
        return f"nothing to {what}"
    return f"there {'is' if count == 1 else 'are'} only {plural(count, 'state')} to {what}"
