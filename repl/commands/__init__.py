"""The commands of the REPL: one row each, with a function on the session that returns data.

The rows are in files by theme; `execute` runs one line. A command line is words; some take
the rest of the line as one text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from os.path import abspath, exists, expanduser

from hloc.errors import HloError
from hloc.near_names import near_name_notes
from repl.commands import (
    editing,
    files,
    general,
    gpu,
    looking,
    lowering,
    passes,
    pictures,
    running,
    stepping,
    travel,
)
from repl.commands.row import Command, Results
from repl.plugins import reload_all
from repl.results import HelpOn, Message, Script
from repl.scripts import autosave
from repl.session import Session

GROUPS: tuple[tuple[str, tuple[Command, ...]], ...] = (
    ("Load and save", files.ROWS),
    ("Look", (*looking.ROWS, *pictures.ROWS)),
    ("Passes", passes.ROWS),
    ("Inside a pass", stepping.ROWS),
    ("Time travel, compare", travel.ROWS),
    ("Edit", editing.ROWS),
    ("Run", running.ROWS),
    ("Lower", (*lowering.ROWS, *gpu.ROWS)),
    ("General", general.ROWS),
)

COMMANDS: dict[str, Command] = {
    row.name: replace(row, group=group) for group, rows in GROUPS for row in rows
}

ALIASES = {
    "exit": "quit", "q": "quit", "?": "help", "s": "step", "n": "next", "c": "continue",
    "u": "undo", "b": "break", "p": "show", "h": "help", "memory": "mem",
}  # fmt: skip


def execute(session: Session, line: str) -> Results:
    """Run one line; comments (`#`) and empty lines do nothing.

    Raises:
        HloError: an unknown command, or an error of the command.
    """
    text = line.strip()
    if "\0" in text:
        raise HloError("a command cannot contain a NUL character")
    if not text or text.startswith("#"):
        if text and not session.sourcing:
            session.lines.append(text)  # prose of an export
        return
    for message in reload_all(session, only_changed=True):
        yield Message(message)
    row, rest = _row_of(text)
    if rest and row.usage == row.name:
        raise HloError(f"{row.name} takes no arguments, found {rest!r}")
    if row.question and not rest:
        raise HloError(row.question, notes=(f"use: {row.usage}", row.summary))
    found = row.function(session, rest)
    for result in found if isinstance(found, Iterator) else (found,):
        if isinstance(result, Script):
            yield from _run(session, result)
        elif isinstance(result, HelpOn):
            yield general.help_on(result.word, COMMANDS, ALIASES)
        else:
            yield result
    if row.name != "export" and not session.sourcing:
        session.lines.append(text)
    if row.is_kept:
        session.commands.append(_as_kept(row, rest))
        autosave(session)


def _run(session: Session, script: Script) -> Results:
    session.sourcing += 1
    try:
        for line in script.lines:
            yield from execute(session, line)
    finally:
        session.sourcing -= 1


def _row_of(text: str) -> tuple[Command, str]:
    """Return the command of a line and the rest of the line."""
    name, _, rest = text.partition(" ")
    head, newline, more = name.partition("\n")
    if newline:
        name, rest = head, f"{more} {rest}"
    if text.startswith("%"):
        return COMMANDS["show"], text
    if text.startswith("!"):
        return COMMANDS["!"], text[1:].strip()
    if (name, rest.strip()) == ("info", "break"):
        return replace(COMMANDS["info"], function=stepping.info_break, question=""), ""
    name = ALIASES.get(name, name)
    if name not in COMMANDS:
        near = near_name_notes(name, [*COMMANDS, *ALIASES])
        raise HloError(f"unknown command {name!r}", notes=near or ("type help for the commands",))
    return COMMANDS[name], rest.strip()


def _as_kept(row: Command, rest: str) -> str:
    """Return the line for a session file, with paths that work from any folder."""
    if row.takes == "file":
        words = [rest] if exists(expanduser(rest)) else rest.split(" ", 1)
        if exists(expanduser(words[0])):
            rest = " ".join((abspath(expanduser(words[0])), *words[1:]))
    return f"{row.name} {rest}".rstrip()
