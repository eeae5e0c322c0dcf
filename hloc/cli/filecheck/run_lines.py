"""`// RUN: hloc %s --passes=dce | FileCheck %s`: command lines in the file they test.

They are not passed to a shell: they run hloc only, with commands and options that write no file
and run no other code, so untrusted files can be checked.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import suppress

from hloc.cli.aot_command import LINKED
from hloc.cli.arguments import parse_arguments
from hloc.cli.command_words import command_and_words
from hloc.cli.options import options_of
from hloc.errors import HloError
from hloc.lazy_dataclass import dataclass
from hloc.python_process import python_command, python_environment
from hloc.report.exits import UsageError

_RUN = re.compile(r"^\s*(?://|#)\s*RUN:(.*)$")
_COMMANDS = ("run", "parse", "verify", "convert", "diff", "stats", "extract", "partition",
             "explain-sharding", "explain", "passes", "rules", "ops")  # fmt: skip
_REFUSED = ("output_file", "compile_only", "shared", "output", "dump_dir", "repro_dir", "html",
            "plugin", "test", "memory", "repro", "engine", "autotune")  # fmt: skip
"""Options that write files, load code or start programs, as attributes of parsed arguments."""

_SHELL = re.compile(r"[;`]|\$\(")
_SECONDS = 120


@dataclass(frozen=True, slots=True)
class RunLine:
    """One command line.

    Attributes:
        line: where it begins, from 1.
        words: the arguments of hloc, with `%s` for the file.
        prefixes: of the checks for its output, () if nothing is checked.
        fails: it starts with `not`, and must fail.
        merges: `2>&1`: messages are checked as well.
    """

    line: int
    words: tuple[str, ...]
    prefixes: tuple[str, ...] = ()
    fails: bool = False
    merges: bool = False


def run_lines(text: str) -> Iterator[RunLine]:
    r"""Yield the command lines in `text`; one that ends with `\` continues on the next.

    Raises:
        HloError: a command other than hloc.
    """
    begin, so_far = 0, ""
    for number, line in enumerate(text.split("\n"), 1):
        found = _RUN.match(line.rstrip("\r"))
        if found is None:
            continue
        begin = begin or number
        so_far += " " + found[1].strip()
        if so_far.endswith("\\"):
            so_far = so_far[:-1]
            continue
        yield _read(begin, so_far)
        begin, so_far = 0, ""
    if so_far:
        yield _read(begin, so_far)


def _read(line: int, text: str) -> RunLine:
    command, bar, checker = text.partition("|")
    try:
        words, check = shlex.split(command), shlex.split(checker)
    except ValueError as fault:
        raise HloError(f"line {line}: cannot read the RUN line: {fault}") from None
    fails = words[:1] == ["not"]
    words = words[fails:]
    merges = "2>&1" in words
    words = [word for word in words if word != "2>&1"]
    if words[:1] != ["hloc"]:
        raise HloError(
            f"line {line}: a RUN line runs hloc, found {' '.join(words[:1]) or 'nothing'}"
        )
    _check_words(line, words[1:])
    prefixes = _prefixes(line, check) if bar else ("CHECK",)
    return RunLine(line, tuple(words[1:]), prefixes, fails, merges)


def _check_words(line: int, words: list[str]) -> None:
    """Refuse what a shell would do, and options that write files or load code."""
    for word in words:
        if word in ("&&", "||", "&") or word.startswith((">", "<", "2>")) or _SHELL.search(word):
            raise HloError(f"line {line}: no shell reads RUN lines, found {word!r}")
        if word.startswith("@"):
            raise HloError(f"line {line}: a RUN line cannot have {word}")
    command, rest = _command(words)
    if command and command not in _COMMANDS:
        known = ", ".join(_COMMANDS)
        raise HloError(
            f"line {line}: a RUN line cannot run hloc {command}", notes=(f"it can: {known}",)
        )
    for option in _refused_options(command, rest):
        raise HloError(f"line {line}: a RUN line cannot have {option}")


def _command(words: list[str]) -> tuple[str, list[str]]:
    """Return the command that hloc would run, known or not, and its words."""
    with suppress(UsageError):
        command, rest = command_and_words(words)
        if command:
            return command, rest
    first = words[0] if words else ""
    return (first if re.fullmatch(r"[a-z][a-z-]*", first) else ""), words


def _refused_options(command: str, words: list[str]) -> Iterator[str]:
    """Yield the words that hloc would parse as options that a RUN line cannot have."""
    try:
        arguments = parse_arguments(command, words)
    except UsageError:
        return  # it does nothing
    for row in options_of(command):
        if row.dest in _REFUSED and getattr(arguments, row.dest):
            yield row.flags[-1]
    for kind in LINKED:
        if kind in getattr(arguments, "emit", ()):
            yield f"--emit={kind}"


def _prefixes(line: int, check: list[str]) -> tuple[str, ...]:
    """Return the prefixes that `FileCheck %s --check-prefixes=A,B` names."""
    if check[:2] == ["hloc", "check"]:
        check = ["FileCheck", *check[2:]]
    found: list[str] = []
    for word in check[1:]:
        option, _, value = word.lstrip("-").partition("=")
        if option in ("check-prefix", "check-prefixes") and value:
            found += value.split(",")
        elif word != "%s":
            raise HloError(
                f"line {line}: FileCheck takes %s and --check-prefix=NAME, found {word!r}"
            )
    if check[:1] != ["FileCheck"]:
        raise HloError(f"line {line}: the output of hloc goes to FileCheck %s only")
    return tuple(found) or ("CHECK",)


def output_of(row: RunLine, path: str) -> str:
    """Run the command in a process of its own and return what it prints.

    Raises:
        HloError: it fails, or with `not` succeeds, or takes too long.
    """
    name = os.path.abspath(path)
    words = [word.replace("%s", name) for word in row.words]
    try:
        done = subprocess.run(
            python_command("-m", "hloc", *words),
            env=python_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise HloError(f"line {row.line}: stopped after {_SECONDS} s") from None
    out, err = (text.decode("utf-8", "replace") for text in (done.stdout, done.stderr))
    if bool(done.returncode) != row.fails or done.returncode in (70, 130) or done.returncode < 0:
        expected = "a fault" if row.fails else "code 0"
        command = shlex.join(["hloc", *row.words])
        raise HloError(
            f"line {row.line}: {command} ended with code {done.returncode}, expected {expected}",
            notes=tuple(err.strip().split("\n")[:8]) if err.strip() else (),
        )
    return (out + err if row.merges else out).replace(name, path).replace("\r\n", "\n")
