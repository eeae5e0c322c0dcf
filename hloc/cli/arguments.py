"""A command line, parsed by the rows of `options.py`.

An option with an optional value (`--random[=SEED]`) needs `=` before the value, so that a file name
after it is not taken as the value.
"""

from __future__ import annotations

from argparse import ArgumentParser, HelpFormatter, Namespace
from collections.abc import Iterable, Sequence
from functools import partial
from typing import NoReturn

from hloc.cli.options import OPTIONS, Option, options_of
from hloc.near_names import did_you_mean
from hloc.report.exits import UsageError

_NO_WIDTH = partial(HelpFormatter, width=80)
"""Formatter of error messages; argparse's default asks for the terminal width each time."""


class Parser(ArgumentParser):
    """Raises instead of leaving the process."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message.replace("argument ", "", 1))


def parse_arguments(command: str, words: Sequence[str]) -> Namespace:
    """Read `words` (without the command itself) for `command`.

    Returns:
        A namespace with one attribute per option, `files` (the positional words) and `ignored`
        (`--xla_...` flags, which are not an error). All words after `--` are files.

    Raises:
        UsageError: an unknown option or a bad value.
    """
    rows = options_of(command)
    parser = Parser(
        add_help=False,
        allow_abbrev=False,
        prog=f"hloc {command}".strip(),
        formatter_class=_NO_WIDTH,
    )
    for row in rows:
        _add(parser, row)
    parser.add_argument("files", nargs="*")
    end = words.index("--") if "--" in words else len(words)
    found, rest = parser.parse_known_intermixed_args(_with_implied_values(rows, words[:end]))
    rest += [word for word in found.files if word[:1] == "-" != word]
    found.files += words[end + 1 :]
    found.ignored = tuple(word for word in rest if word.startswith("--xla_"))
    for word in rest:
        if not word.startswith("--xla_"):
            raise _unknown(word, rows)
    for row in rows:
        _convert(found, row)
    return found


def _add(parser: ArgumentParser, row: Option) -> None:
    if not row.metavar:
        parser.add_argument(*row.flags, dest=row.dest, action="store_true")
    elif row.repeated:
        parser.add_argument(*row.flags, dest=row.dest, action="append", metavar=row.metavar)
    else:
        parser.add_argument(*row.flags, dest=row.dest, metavar=row.metavar)


def _with_implied_values(rows: Iterable[Option], words: Sequence[str]) -> list[str]:
    """Spell `--random` as `--random=0`, so that the next word is never taken as its value."""
    implied = {flag: row.implied for row in rows for flag in row.flags if row.implied is not None}
    out: list[str] = []
    for word in words:
        value = implied.get(word)
        glue = "=" if word.startswith("--") else ""
        out.append(word if value is None else f"{word}{glue}{value}")
    return out


def _convert(found: Namespace, row: Option) -> None:
    """Turn the text of an option into its value."""
    texts = getattr(found, row.dest)
    if not row.metavar:
        return
    if texts is None:
        value = row.default
    else:
        try:
            if row.repeated:
                value = tuple(part for text in texts for part in row.convert(_text(text)))
            else:
                value = row.convert(_text(texts))
        except ValueError as fault:
            raise UsageError(f"{row.flags[0]}: {fault}") from None
    setattr(found, row.dest, value)


def _text(value: str | list[str]) -> str:
    """Return the value of an option; argparse makes an empty list of `--`, also behind `=`."""
    return value if isinstance(value, str) else "--"


def _unknown(word: str, rows: Iterable[Option]) -> UsageError:
    flag = word.partition("=")[0]
    known = [f for row in rows for f in row.flags]
    where = [c for row in OPTIONS if flag in row.flags for c in row.commands]
    hint = f"; it belongs to `{f'hloc {where[0]}'.strip()}`" if where else did_you_mean(flag, known)
    return UsageError(f"unknown option {flag}{hint}")
