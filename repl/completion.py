"""What Tab offers: commands, then by command files, passes, states or instructions."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document

from repl.commands import ALIASES, COMMANDS, instruction_names
from repl.session import Session, State

_MAX_OFFERED = 200


@dataclass(slots=True)
class HloCompleter(Completer):
    """Completes by the command's `takes`; sorted name lists are kept per state."""

    session: Session
    _files: PathCompleter = field(default_factory=lambda: PathCompleter(expanduser=True))
    _names_of: State | None = None
    _names: list[tuple[str, str]] = field(default_factory=list)

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """Yield what may stand at the cursor."""
        command, space, rest = document.text_before_cursor.lstrip().partition(" ")
        if not space:
            if command.startswith("%"):
                yield from self._instructions(command)
            else:
                yield from _matching(command, [(c.name, c.summary) for c in COMMANDS.values()])
            return
        row = COMMANDS.get(ALIASES.get(command, command))
        word = rest.rpartition(" ")[2]
        takes = row.takes if row else ""
        if takes == "file":
            yield from self._files.get_completions(Document(rest, len(rest)), complete_event)
        elif takes == "pass":
            yield from _matching(word.rpartition(",")[2].rpartition("(")[2], _passes())
        elif takes == "instruction":
            yield from self._instructions(word)
        elif takes == "state":
            yield from _matching(word, [(s.label, s.how) for s in self.session.states])
        elif takes == "command":
            yield from _matching(word, [(c.name, c.summary) for c in COMMANDS.values()])

    def _instructions(self, word: str) -> Iterator[Completion]:
        """Yield the names that start with `word`, found by bisection: there may be 20,000."""
        if not self.session.is_loaded:
            return
        if self._names_of is not self.session.current:
            self._names_of = self.session.current
            self._names = sorted(instruction_names(self.session))
        start = word.removeprefix("%")
        first = bisect_left(self._names, (start, ""))
        for name, about in self._names[first : first + _MAX_OFFERED]:
            if not name.startswith(start):
                return
            yield Completion(name, -len(start), display_meta=about)


def _passes() -> list[tuple[str, str]]:
    from hloc.cli.list_commands import pass_summaries

    return pass_summaries()


def _matching(word: str, rows: Iterable[tuple[str, str]]) -> Iterator[Completion]:
    for name, about in rows:
        if name.startswith(word):
            yield Completion(name, -len(word), display_meta=about)
