"""Tab completion, by the kind of word at the cursor, which the command declares.

Lists of names come from `names`, which builds them in the background; this file only reads them.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from functools import partial
from itertools import islice

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document

from hloc.errors import HloError, printable
from hloc.lazy_dataclass import dataclass
from hloc.ops import OPCODES
from hloc.opt.pipeline import Pipeline
from hloc.opt.registry import all_rules, canonical_name, pass_class
from hloc.opt.rule import Rule
from hloc.report.describe import pass_summaries
from hloc.report.text import plural
from repl.commands import ALIASES, COMMANDS
from repl.passes import recipe_for
from repl.prompt.names import NameCache, PrefixIndex, StateNames
from repl.session import Session
from repl.settings import SETTINGS
from repl.state import State

_MAX_OFFERED = 200
_OPTION = re.compile(r"--[a-z][a-z-]*")
_BREAK_TAKES = {"pass": "pass", "rule": "rule", "op": "opcode"}
_MODULE_FILES = (".hlo", ".txt", ".hlo.gz", ".pb", ".pbtxt", ".mlir")
_FILE_TYPES = {
    "load": _MODULE_FILES,
    "inputs": (".npz",),
    "source": (".hlor", ".repl"),
    "open-session": (".json", ".hlor", ".session"),
    "plugin": (".py",),
}


@dataclass(slots=True)
class HloCompleter(Completer):
    """Completes by the command's `takes`."""

    session: Session
    names: NameCache = field(default_factory=NameCache)

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """Yield the completions at the cursor."""
        line = document.text_before_cursor.rpartition("\n")[2].lstrip()
        command, space, rest = line.partition(" ")
        if not space:
            if command.startswith("%"):
                return self._instructions(command)
            return _matching(command, _commands())
        name = ALIASES.get(command, command)
        row = COMMANDS.get(name)
        if row is None:
            return ()
        word = rest.rpartition(" ")[2]
        if word.startswith("--"):
            return _matching(word, [(option, "") for option in _OPTION.findall(row.usage)])
        if word.startswith("%"):
            return self._instructions(word)
        if word.startswith("@"):
            return self._computations(word)
        return self._by_kind(row.takes, name, rest, word, complete_event)

    def prepare(self) -> None:
        """Start listing the names of the current state; called before each prompt."""
        if self.session.is_loaded:
            self.names.prepare(self.session.current)

    def _by_kind(
        self, takes: str, command: str, rest: str, word: str, event: CompleteEvent
    ) -> Iterable[Completion]:
        """Return completions for each of the kinds of word in `takes`."""
        if takes == "file":
            return _files(command, rest, event)
        kinds: dict[str, Callable[[str], Iterable[Completion]]] = {
            "pass": self._passes,
            "rule": lambda word: _matching(word, [(r.name, _description(r)) for r in all_rules()]),
            "instruction": self._instructions,
            "computation": self._computations,
            "state": self._states,
            "command": lambda word: (*_matching(word, _commands()), *self._passes(word)),
            "setting": _settings,
            "opcode": lambda word: _matching(word, [(name, "") for name in sorted(OPCODES)]),
            "kind": lambda word: _matching(word, [(kind, "") for kind in _choices(command)]),
        }
        if command == "break":
            takes = _BREAK_TAKES.get(rest.split(" ")[0], "kind") if " " in rest else "kind"
        found: list[Completion] = []
        for kind in re.split(r"[|, ]+", takes):
            if kind in kinds:
                found += kinds[kind](word)
        return found

    # ---- names of the module

    def _instructions(self, word: str) -> Iterator[Completion]:
        return _beginning(self._known().instructions, word.removeprefix("%"))

    def _computations(self, word: str) -> Iterator[Completion]:
        return _beginning(self._known().computations, word.lstrip("@"))

    def _states(self, word: str) -> Iterator[Completion]:
        session = self.session
        if not session.is_loaded:
            return
        rows = [(s.label, f"{s.how}, {s.instructions:,} instructions") for s in session.states]
        rows += [(name, f"mark of {state.label}") for name, state in session.tree.marks.items()]
        rows += [("prev", "the state before this one")]
        start = word.rpartition("..")[2]
        yield from _matching(start, rows)

    # ---- passes

    def _passes(self, word: str) -> Iterator[Completion]:
        """Yield passes, or the options of one inside its braces."""
        name, brace, options = word.rpartition("{")
        if brace and "}" not in options:
            option = options.rpartition(",")[2]
            yield from _pass_options(re.split(r"[,(]", name)[-1], option)
            return
        start = re.split(r"[,(]", word)[-1]
        effects = self._effects()
        rows = [(name, _effect(name, about, effects)) for name, about in pass_summaries()]
        levels = [(f"-O{level}", "the passes of this level") for level in range(4)]
        yield from _matching(start, [*rows, *(levels if start.startswith("-") else [])])

    def _effects(self) -> dict[str, int]:
        """Return the known effects of passes on this state, and start computing the others."""
        if not self.session.is_loaded:
            return {}
        state = self.session.current
        self.names.try_passes(
            state, [name for name, _ in pass_summaries()], partial(self._try_out, state)
        )
        return self._known().effects

    def _known(self) -> StateNames:
        """Return the names of the current state, as far as they are listed by now."""
        known = self.names.known(self.session.current) if self.session.is_loaded else None
        return known or StateNames()

    def _try_out(self, state: State, name: str) -> int | None:
        try:
            (what,) = Pipeline.parse(name).passes
            return len(recipe_for(self.session, what).run(state.module).rules)
        except Exception:  # a failing pass is reported when it is applied, not while typing
            return None


def _beginning(names: PrefixIndex, start: str) -> Iterator[Completion]:
    for name, about in names.starting_with(start, _MAX_OFFERED):
        yield Completion(name, -len(start), display_meta=printable(about))


def _description(rule: Rule) -> str:
    """Return the description of a rule: the first line of its docstring, and its exactness."""
    said = (rule.build.__doc__ or "").partition("\n")[0]
    return said if rule.exactness == "exact" else f"{rule.exactness}  {said}".rstrip()


def _choices(command: str) -> list[str]:
    """Return the alternatives in the usage of a command."""
    usage = COMMANDS[command].usage.removeprefix(command)
    words = [part.split()[0] for part in re.split(r" ?\| ?", usage) if part.split()]
    return [word for word in words if word[0].isalpha()]


def _effect(name: str, about: str, effects: dict[str, int]) -> str:
    count = effects.get(name)
    if count is None:
        return about
    return f"{plural(count, 'rewrite')} here" if count else "nothing to do here"


def _pass_options(name: str, option: str) -> Iterator[Completion]:
    try:
        cls = pass_class(canonical_name(name))
    except HloError:
        return
    key, equals, value = option.partition("=")
    for row in dataclasses.fields(cls):
        text = row.name.replace("_", "-")
        if not equals:
            yield from _matching(option, [(f"{text}=", f"default {row.default}")])
        elif text == key and isinstance(row.default, bool):
            yield from _matching(value, [("true", ""), ("false", "")])


def _settings(word: str) -> Iterator[Completion]:
    """Yield keys, or the values of one after `=`."""
    key, equals, value = word.partition("=")
    if not equals:
        yield from _matching(word, [(f"{s.key}=", s.summary) for s in SETTINGS.values()])
    elif key in SETTINGS:
        default = SETTINGS[key].default
        choices = SETTINGS[key].choices
        yield from _matching(value, [(c, "default" * (c == default)) for c in choices])


def _files(command: str, rest: str, event: CompleteEvent) -> Iterator[Completion]:
    types = _FILE_TYPES.get(command)

    def fits(path: str) -> bool:
        return types is None or path.endswith(types)

    paths = PathCompleter(expanduser=True, file_filter=fits)
    yield from islice(paths.get_completions(Document(rest, len(rest)), event), _MAX_OFFERED)


def _commands() -> list[tuple[str, str]]:
    return [(command.name, command.summary) for command in COMMANDS.values()]


def _matching(word: str, rows: Iterable[tuple[str, str]]) -> Iterator[Completion]:
    for name, about in rows:
        if name.startswith(word):
            yield Completion(name, -len(word), display_meta=about)
