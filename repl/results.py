"""Results that all commands share: lines, tables, text; other results are defined by topic."""

from __future__ import annotations

from hloc.analysis.diff.module_lines import Line
from hloc.lazy_dataclass import dataclass
from repl.history import HistoryEntry
from repl.state import State
from repl.walk import Step


@dataclass(frozen=True, slots=True)
class Message:
    """A plain line; `kind` is "", `good`, `bad` or `dim`."""

    text: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Script:
    """Commands to run now, one per line."""

    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HelpOn:
    """A question for help: a command, pass, opcode or setting; "" asks for all commands."""

    word: str


@dataclass(frozen=True, slots=True)
class Export:
    """The commands of the session, to be run again and written with their output."""

    script: str
    path: str
    commands: str


@dataclass(frozen=True, slots=True)
class Moved:
    """The current state has changed."""

    state: State
    how: str


@dataclass(frozen=True, slots=True)
class ModuleText:
    """HLO text."""

    text: str


@dataclass(frozen=True, slots=True)
class Report:
    """Lines of a report, wrapped to the terminal."""

    text: str
    prose: bool = False


@dataclass(frozen=True, slots=True)
class Listing:
    """Lines of some instructions, grouped by computation."""

    groups: tuple[tuple[str, tuple[Line, ...]], ...]


@dataclass(frozen=True, slots=True)
class Info:
    """One instruction with what is around it."""

    line: Line
    shape: str
    computation: str
    operands: tuple[Line, ...]
    users: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under column heads.

    Attributes:
        title: a line above, "" for none.
        heads: () for none.
        right: indices of right-aligned columns.
    """

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of a pass here; `rewrites` is None if it was not tried.

    `rules` says how often each of its rules would fire, `failure` why it could not run.
    """

    name: str
    summary: str
    rewrites: int | None
    rules: tuple[tuple[str, int], ...] = ()
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Effects:
    """Passes, with the effect of each here."""

    effects: tuple[Effect, ...]


@dataclass(frozen=True, slots=True)
class PipelineView:
    """A pipeline with its cursor."""

    name: str
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Edited:
    """A state made by a manual edit."""

    state: State


@dataclass(frozen=True, slots=True)
class Tree:
    """Lines at depths, as of operands below their users."""

    rows: tuple[tuple[int, Line], ...]
    more: int = 0


@dataclass(frozen=True, slots=True)
class HistoryTree:
    """The history, one state per line."""

    entries: tuple[HistoryEntry, ...]


@dataclass(frozen=True, slots=True)
class Quit:
    """The session ends."""
