"""The command `hloc`: selects the subcommand, and maps every outcome to an exit code.

Nothing heavy is imported here: `hloc --version` and `--help` answer without NumPy, Lark or LLVM.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from typing import NoReturn

from hloc import __version__
from hloc.report.exits import Exit, UsageError, ending
from hloc.report.process import run_process

_COLLECT_AFTER = 200_000
"""Allocations before Python's cycle collector runs; loading and compiling a small module makes
70,000, and a collection of those takes 10 to 20 ms."""

_DEFERRED = (
    "numpy",
    "ml_dtypes",
    "inspect",
    "shutil",
    "subprocess",
    "tempfile",
    "traceback",
    "zipfile",
)
"""Packages imported on first use: each takes milliseconds, and few commands need it."""


def process() -> NoReturn:
    """Run the command `hloc` and exit."""
    run_process(main)


def main(argv: Sequence[str] | None = None) -> int:
    """Run `hloc` with `argv` (without the program name) and return the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if argv is None:
        gc.set_threshold(_COLLECT_AFTER)
    return ending("hloc", lambda: _run(words), whole=argv is None)


def _run(words: list[str]) -> int:
    """Run the command and report usage errors."""
    if words == ["--version"]:
        return _print(f"hloc {__version__}\n")
    from hloc.deferred_import import defer_import

    for name in _DEFERRED:
        defer_import(name)
    from hloc.cli.command_words import command_and_words

    command = ""
    try:
        command, words = command_and_words(words)
        return _dispatch(command, words)
    except UsageError as fault:
        from hloc.errors import printable

        see = f"hloc {command} --help" if command else "hloc --help"
        sys.stderr.write(f"hloc: error: {printable(str(fault))}\nsee `{see}`\n")
        return Exit.USAGE


def _dispatch(command: str, words: list[str]) -> int:
    """Run one command; return its exit code.

    Imports are inside, each after the last way out that does not need it.
    """
    from hloc.cli.commands import COMMANDS, COMPILE_COMMAND

    if command == "repl":
        from hloc.cli.repl_command import start_repl

        return start_repl(words)
    if not command and not words:
        raise UsageError("no input file")
    from hloc.cli.arguments import parse_arguments

    arguments = parse_arguments(command, words)
    if arguments.help:
        return _print_help(command)
    if arguments.version:
        return _print(f"hloc {__version__}\n")
    from hloc.cli.guard import guarded
    from hloc.cli.talk import Talk
    from hloc.limits import process_limits

    row = COMMANDS[command] if command else COMPILE_COMMAND
    talk = Talk(arguments.quiet, arguments.color)
    for word in arguments.ignored:
        talk.warn(f"{word} is an XLA option and has no effect here")

    def work() -> int:
        with process_limits(arguments.limit):
            return row.load()(arguments, talk)

    return guarded(talk, work)


def _print(text: str) -> int:
    sys.stdout.write(text)
    return Exit.OK


def _print_help(command: str) -> int:
    from hloc.cli.help import help_text

    return _print(help_text(command))
