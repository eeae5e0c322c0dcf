"""Change the module by hand."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from hloc.errors import HloError, reason_of
from repl import editing
from repl.commands.row import Command, Results, needed
from repl.commands.stepping import delete_breakpoint
from repl.results import Edited, Message
from repl.session import Session


def _edit(session: Session, rest: str) -> Results:
    name, _, text = rest.partition(" ")
    text = text.strip().removeprefix("= ").strip()
    if text:
        yield Edited(editing.edit_instruction(session, name, text))
    elif name:
        inst = session.find(name)
        yield Message(f"edit %{inst.name} = {editing.line_text(inst)}")
    else:
        old = session.current.module.to_text("default", large_constants=True)
        yield Edited(editing.edit_module(session, _in_editor(old), "edit"))


def _in_editor(text: str) -> str:
    """Let the user change a text in $EDITOR; needs a terminal."""
    if not (sys.stdin and sys.stdin.isatty() and sys.stdout.isatty()):
        raise HloError("edit what?", notes=("use: edit %name = f32[4] add(x, y)",))
    words = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory(prefix="hloc-edit-") as folder:
        path = Path(folder) / "module.hlo"
        path.write_text(text, encoding="utf-8", errors="surrogateescape")
        try:
            done = subprocess.run([*words, str(path)], check=False)
        except OSError as fault:
            raise HloError(f"cannot start {words[0]}: {reason_of(fault)}") from None
        if done.returncode:
            raise HloError(f"{words[0]} ended with exit code {done.returncode}")
        return path.read_text(encoding="utf-8", errors="surrogateescape")


def _replace(session: Session, rest: str) -> Results:
    name, _, text = rest.partition(" ")
    word, _, by = text.strip().partition(" ")
    if word.lower() != "with" or not by:
        raise HloError(
            "replace what?", notes=("use: replace %x WITH %y, or WITH f32[4] add(a, b)",)
        )
    yield Edited(editing.replace_instruction(session, name, by.strip()))


def _delete(session: Session, rest: str) -> Results:
    if not rest or rest == "all" or rest.isdecimal():
        yield from delete_breakpoint(session, rest)
    else:
        yield Edited(editing.delete_instruction(session, rest))


def _rename(session: Session, rest: str) -> Results:
    words = rest.split()
    if len(words) != 2:
        raise HloError("rename what?", notes=("use: rename %x NAME",))
    yield Edited(editing.rename_instruction(session, *words))


def _set_layout(session: Session, rest: str) -> Results:
    name, _, layout = rest.partition(" ")
    needed(layout, "which layout?", "set-layout %x {0,1}")
    yield Edited(editing.set_layout(session, name, layout))


def _insert(session: Session, rest: str) -> Results:
    yield Edited(editing.insert_instruction(session, rest))


ROWS = (
    Command("edit", "edit %name [= TEXT] | edit",
            "rewrite an instruction; without TEXT print it, without a name open $EDITOR",
            _edit, "instruction", True),
    Command("replace", "replace %x WITH %y | TEXT", "replace all uses of %x",
            _replace, "instruction", True),
    Command("delete", "delete %name | N", "remove an unused instruction, or breakpoint N",
            _delete, "instruction", True),
    Command("rename", "rename %name NAME", "rename an instruction", _rename,
            "instruction", True),
    Command("set-layout", "set-layout %name {0,1}", "set the layout of an instruction",
            _set_layout, "instruction", True),
    Command("insert", "insert NAME = TEXT", "add an instruction", _insert, "", True,
            question="insert what?"),
)  # fmt: skip
