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
from hloc.output_file import write_form
from hloc.private_files import UnsafeFileError, check_folder, read_private

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
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except OSError as fault:
        raise HloError(f"cannot read {printable(path)}: {reason_of(fault)}") from None
    except UnicodeDecodeError:
        raise HloError(f"cannot read {printable(path)}: not a text file") from None


def command_lines(lines: str | Iterable[str]) -> Iterator[str]:
    """Yield the commands of a script; one that ends with `<<WORD` takes the lines up to WORD.

    Only a line feed ends a line: a name may contain other Unicode line separators.
    """
    source = iter(lines.removesuffix("\n").split("\n") if isinstance(lines, str) else lines)
    for line in source:
        command, word = _opening(line)
        if not word:
            yield line.rstrip("\r\n")
            continue
        text = []
        for inside in source:
            if inside.strip() == word:
                break
            text.append(inside.rstrip("\r\n"))
        yield command + "\n".join(text)


def _opening(line: str) -> tuple[str, str]:
    """Return the text before `<<WORD` at the end of a line, and WORD; "" if there is none."""
    command, opening, word = line.rstrip().rpartition("<<")
    is_word = word.isidentifier() or word == _MARK
    return (command, word) if opening and is_word and not line.startswith("#") else (line, "")


def session_text(session: Session) -> str:
    """Return the commands that made the session, as a script."""
    lines = [_HEAD]
    for command in session.commands:
        lines += [*_checksum(command), *as_script_lines(command)]
    return "\n".join(lines) + "\n"


def as_script_lines(command: str) -> list[str]:
    """Return a command as lines of a script; several lines of text go between marks."""
    if "\n" not in command and not _opening(command)[1]:
        return [command]
    name, text = command.split(None, 1)
    mark, number = _MARK, 1
    while mark in text:  # else the text would end early, and the rest would run as commands
        mark, number = f"END_OF_TEXT_{number}", number + 1
    return [f"{name} <<{mark}", *text.split("\n"), mark]


def _checksum(command: str) -> list[str]:
    """Return a comment with the checksum of the file that a command reads."""
    name, _, path = command.partition(" ")
    if name not in ("load", "plugin", "inputs") or not os.path.isfile(path):
        return []
    digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    return [f"# sha256 {digest[:16]} {printable(os.path.basename(path))}"]


def write_session(session: Session, path: str) -> int:
    """Write the session to a file; return the number of commands.

    Raises:
        HloError: the file cannot be written.
    """
    write_form(path, session_text(session))
    return len(session.commands)


# ---------------------------------------------------------------- saved without being asked


def autosave_path() -> Path:
    """Return where the commands of the last session on a terminal are kept."""
    return state_folder() / "last-session.hlor"


def recovered_path() -> str:
    """Return `autosave_path` if no other user can have written the file.

    Raises:
        HloError: another user could have, or there is no file.
    """
    path = str(autosave_path())
    try:
        check_folder(os.path.dirname(path))
        read_private(path)
    except UnsafeFileError as fault:
        raise HloError(f"the last session is not recovered: {printable(str(fault))}") from None
    except OSError as fault:
        raise HloError(f"cannot read {printable(path)}: {reason_of(fault)}") from None
    return path


def autosave(session: Session) -> None:
    """Save the commands so far, if the session is to be saved; a full disk is no error."""
    if not session.autosave_path:
        return
    path = Path(session.autosave_path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_form(str(path), session_text(session))
    except (OSError, HloError):
        session.autosave_path = ""


# ---------------------------------------------------------------- as a command line


def command_line_of(session: Session) -> str:
    """Return the `hloc` command that makes the current state.

    Raises:
        HloError: the state depends on an edit, or on a step of another compiler.
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
