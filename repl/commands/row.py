"""One row of the command table, and helpers for the functions of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from hloc.errors import HloError
from hloc.lazy_dataclass import dataclass
from repl.session import Session

_MOST = 99_999

Results: TypeAlias = Iterator[object]
"""The results of a command, yielded as they become known."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command.

    Attributes:
        usage: its syntax; several forms are separated by ` | `.
        function: runs it on the text after the name; returns `Results`, or one result.
        takes: what Tab completes after it: `file`, `pass`, `rule`, `instruction`, `computation`,
            `state`, `setting`, `command` or "".
        is_kept: it changes the session, so a session file repeats it.
        question: error if the argument is missing; "" if it is optional.
        group: heading in the help.
    """

    name: str
    usage: str
    summary: str
    function: Callable[[Session, str], object]
    takes: str = ""
    is_kept: bool = False
    question: str = ""
    group: str = ""


@dataclass(frozen=True, slots=True)
class Help:
    """The command table, or one row of it."""

    commands: tuple[Command, ...]


def needed(rest: str, question: str, usage: str) -> str:
    """Return `rest`; raises HloError with `question` if there is none."""
    if not rest:
        raise HloError(question, notes=(f"use: {usage}",))
    return rest


def number_of(text: str, default: int = 1) -> int:
    """Return a number from 1 to `_MOST`; "" is the default."""
    if not text:
        return default
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(_MOST))
    if not is_number or not 0 < int(text) <= _MOST:
        raise HloError(f"expected a number from 1 to {_MOST}, found {text[:40]!r}")
    return int(text)


def split_flags(rest: str, known: tuple[str, ...], usage: str) -> tuple[list[str], set[str]]:
    """Return the words of `rest` and its `--flags`; raises HloError for a flag not in `known`."""
    words = rest.split()
    flags = {word for word in words if word.startswith("--")}
    if flags - set(known):
        raise HloError(f"cannot read {rest!r}", notes=(f"use: {usage}",))
    return [word for word in words if not word.startswith("--")], flags
