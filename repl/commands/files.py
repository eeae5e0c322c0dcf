"""Load, save, source, session files, plug-ins."""

from __future__ import annotations

import os
from collections.abc import Sequence
from os.path import expanduser

from hloc.errors import HloError
from hloc.output_file import write_form
from repl.commands.row import Command, Results
from repl.plugins import load, reload_all
from repl.results import Export, Message, ModuleText, Moved, Script
from repl.scripts import (
    as_script_lines,
    command_line_of,
    command_lines,
    read_script,
    write_session,
)
from repl.session import Session
from repl.state import State
from repl.xla_dump import load_dump

_MOST_SOURCES = 8


def _load(session: Session, rest: str) -> Results:
    path = expanduser(rest)
    if os.path.isdir(path.split(" ")[0]) or os.path.isdir(path):
        folder, _, module = (path, "", "") if os.path.isdir(path) else path.partition(" ")
        yield from _load_dump(session, folder, module.strip())
    else:
        yield Moved(session.load(path), "load")


def _load_dump(session: Session, folder: str, module: str) -> Results:
    states = list(load_dump(session, folder, module))
    session.tree.goto("s0")
    yield Moved(states[0], "load")
    yield Message(f"{_steps(states)}: history lists them, redo walks through them")


def _steps(states: Sequence[State]) -> str:
    if len(states) == 2:
        return "the one step of XLA's passes is s1"
    return f"{len(states) - 1} steps of XLA's passes are s1 to {states[-1].label}"


def load_pasted(session: Session, text: str) -> Results:
    """Load a module that was pasted at the prompt."""
    yield from _new(session, text)
    session.commands.append(f"new {text.strip()}")


def _new(session: Session, rest: str) -> Results:
    yield Moved(session.load_text(rest, "<pasted>"), "load")


def _jax(session: Session, rest: str) -> Results:
    from repl.jax_trace import trace_text

    yield Moved(session.load_text(trace_text(rest), "<jax>"), "load")


def _save(session: Session, rest: str) -> Results:
    text = session.current.module.to_text("default", large_constants=True)
    write_form(expanduser(rest), text)
    yield Message(f"{session.current.label} written to {rest}")


def _source(session: Session, rest: str) -> Results:
    path = expanduser(rest)
    if session.sourcing >= _MOST_SOURCES:
        raise HloError(f"scripts are nested more than {_MOST_SOURCES} deep")
    yield Script(tuple(command_lines(read_script(path))))


def _save_session(session: Session, rest: str) -> Results:
    path = expanduser(rest)
    count = write_session(session, path)
    yield Message(f"{count} commands written to {rest}; open-session replays them")


def _export(session: Session, rest: str) -> Results:
    from hloc.learn.export import writer_of

    path = expanduser(rest)
    if not path.endswith(".txt"):
        writer_of(path)
    lines = [line for text in session.lines for line in as_script_lines(text)]
    count = sum(not line.startswith("#") for line in session.lines)
    yield Export("\n".join(lines), path, f"{count} commands")


def _plugin(session: Session, rest: str) -> Results:
    yield Message(load(session, expanduser(rest)))


def _reload(session: Session, rest: str) -> Results:
    for text in reload_all(session, only_changed=False):
        yield Message(text)
    if not session.plugins:
        raise HloError("no plug-in is loaded", notes=("use: plugin FILE.py",))


ROWS = (
    Command(
        "load", "load FILE | DIR [MODULE]",
        "read a module, or an XLA pass dump as a history; starts a new history",
        _load, "file", True, question="load what?",
    ),
    Command("new", "new TEXT | new <<END", "read a module from the following lines", _new, "",
            True, question="where is the module?"),
    Command("jax", "jax EXPR ; SHAPE, ...", "trace a Python lambda with JAX and load its module",
            _jax, "", True, question="trace what?"),
    Command("save", "save FILE", "write the current state as HLO text", _save, "file",
            question="save where?"),
    Command("source", "source FILE.hlor", "run the commands in a file", _source, "file",
            question="source what?"),
    Command("save-session", "save-session FILE.hlor",
            "write the commands of this session to a file", _save_session, "file",
            question="save where?"),
    Command("open-session", "open-session FILE.hlor", "replay a saved session",
            _source, "file", question="open what?"),
    Command("export", "export FILE.md | .html | .ipynb | .txt",
            "rerun all commands and write them with their output", _export, "file",
            question="export where?"),
    Command("cmdline", "cmdline", "print the hloc command that produces the current state",
            lambda session, _rest: ModuleText(command_line_of(session))),
    Command("plugin", "plugin FILE.py",
            "load passes and rules; reloaded when the file changes",
            _plugin, "file", True, question="which plug-in?"),
    Command("reload", "reload", "reload all plug-ins", _reload, "", True),
)  # fmt: skip
