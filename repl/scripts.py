"""Scripts and session files: one command per line, some of which continue over several lines.

    new <<END
    HloModule m ...
    END

A session file is such a script, with checksums of the files it reads in comments.
"""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from hloc.cache_directory import state_folder
from hloc.errors import HloError, printable, reason_of
from hloc.opt.pipeline import text_of

if TYPE_CHECKING:
    from repl.session import Session

_HEAD = "# hlo-repl session 1"
_MARK = "END-OF-TEXT"


def read_script(path: str) -> str:
    """Return the text of a script.

    Raises:
        HloError: the file cannot be read.
    """
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as fault:
        raise HloError(f"cannot read {printable(path)}: {reason_of(fault)}") from None
    except UnicodeDecodeError:
        raise HloError(f"cannot read {printable(path)}: not a text file") from None


def command_lines(lines: str | Iterable[str]) -> Iterator[str]:
    """Yield the commands of a script; one that ends with `<<WORD` takes the lines up to WORD."""
    source = iter(lines.splitlines() if isinstance(lines, str) else lines)
    for line in source:
        command, opening, word = line.rstrip().rpartition("<<")
        if not opening or (not word.isidentifier() and word != _MARK) or line.startswith("#"):
            yield line.rstrip("\n")
            continue
        text = []
        for inside in source:
            if inside.strip() == word:
                break
            text.append(inside.rstrip("\n"))
        yield command + "\n".join(text)


def session_text(session: Session) -> str:
    """Return the commands that made the session, as a script."""
    lines = [_HEAD]
    for command in session.commands:
        lines += [*_checksum(command), *as_script_lines(command)]
    return "\n".join(lines) + "\n"


def as_script_lines(command: str) -> list[str]:
    """Return a command as lines of a script; several lines of text go between marks."""
    name, _, text = command.partition(" ")
    if "\n" not in command:
        return [command]
    return [f"{name} <<{_MARK}", *text.split("\n"), _MARK]


def _checksum(command: str) -> list[str]:
    """Return a comment with the checksum of the file that a command reads."""
    name, _, path = command.partition(" ")
    if name not in ("load", "plugin", "inputs") or not os.path.isfile(path):
        return []
    digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    return [f"# sha256 {digest[:16]} {os.path.basename(path)}"]


def write_session(session: Session, path: str) -> int:
    """Write the session to a file; returns the number of commands.

    Raises:
        HloError: the file cannot be written.
    """
    try:
        Path(path).write_text(session_text(session), encoding="utf-8", errors="surrogateescape")
    except OSError as fault:
        raise HloError(f"cannot write {printable(path)}: {reason_of(fault)}") from None
    return len(session.commands)


# ---------------------------------------------------------------- saved without being asked


def autosave_path() -> Path:
    """Return where the commands of the last session on a terminal are kept."""
    return state_folder() / "last-session.hlor"


def autosave(session: Session) -> None:
    """Keep the commands so far, if the session is one to be kept; a full disk is no fault."""
    if not session.autosave_path:
        return
    path = Path(session.autosave_path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        beside = path.with_suffix(".part")
        beside.write_text(session_text(session), encoding="utf-8", errors="surrogateescape")
        beside.replace(path)
    except OSError:
        session.autosave_path = ""


# ---------------------------------------------------------------- as a command line


def command_line_of(session: Session) -> str:
    """Return the `hloc` command that makes the current state.

    Raises:
        HloError: part of the way was an edit, or a step of another compiler.
    """
    path = session.source_path or "FILE.hlo"
    words = ["hloc", path, *(f"--plugin={plugin}" for plugin in session.plugins)]
    passes: list[str] = []
    disabled: dict[str, None] = {}
    limit = ""
    for state in session.lineage()[1:]:
        if state.recipe is None:
            raise HloError(
                f"{state.label} was made by {state.how}, which no option of hloc repeats"
            )
        if state.base is not None:
            if state is not session.current:
                if any(s.base is None for s in session.lineage()[session.lineage().index(state) :]):
                    raise HloError(f"{state.label} is in the middle of a pass")
                continue
            done = sum(s.rewrite_count for s in session.lineage() if s.base is None)
            limit = f"--opt-bisect-limit={done + state.step}"
        passes.append(text_of(state.recipe.what))
        disabled.update(dict.fromkeys(sorted(state.recipe.disabled_rules)))
        words += ["--fast-math"] * (state.recipe.fast_math and "--fast-math" not in words)
    words.append(f"--passes={','.join(passes)}" if passes else "-O0")
    words += [f"--disable-rule={','.join(disabled)}"] if disabled else []
    words += [limit] if limit else []
    return shlex.join(words)
