"""The command `hloc`: picks the subcommand, and turns every outcome into an exit code.

Nothing heavy is imported here: `hloc --version` and `--help` answer without NumPy, Lark or LLVM.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Sequence

from hloc import __version__
from hloc.report.exits import Exit, OutputFault, UsageError


def main(argv: Sequence[str] | None = None) -> int:
    """Run `hloc` with `argv` (without the program name) and return the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    return ending("hloc", lambda: _run(words))


def ending(program: str, action: Callable[[], int]) -> int:
    """Do `action`, which writes to stdout, and return the exit code of the process.

    Said here, since every program ends so: Ctrl-C, a reader that has left, a full disk.
    """
    _prepare_streams()
    try:
        code = action()
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        sys.stderr.write(f"{program}: interrupted\n")
        return Exit.INTERRUPTED
    except BrokenPipeError:
        _silence_stdout()
        return Exit.BROKEN_PIPE
    except (OutputFault, OSError) as fault:
        from hloc.errors import reason_of

        _silence_stdout()
        reason = reason_of(fault) if isinstance(fault, OSError) else fault
        sys.stderr.write(f"{program}: error: cannot write to stdout: {reason}\n")
        return Exit.FAULT


def _prepare_streams() -> None:
    """Let every text be written: bytes that were no UTF-8 in a module come out as they came in.

    A stream that was closed before the start (`>&-`) takes everything and keeps nothing.
    """
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115 - open until the end
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    stream = sys.stdout
    if isinstance(stream, io.TextIOWrapper):
        unicode = stream.encoding.lower().replace("-", "") == "utf8"
        stream.reconfigure(errors="surrogateescape" if unicode else "backslashreplace")


def _run(words: list[str]) -> int:
    """Carry out the command; usage faults are answered here."""
    if words == ["--version"]:
        return _print(f"hloc {__version__}\n")
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

    row = COMMANDS[command] if command else COMPILE_COMMAND
    talk = Talk(arguments.quiet, arguments.color)
    for word in arguments.ignored:
        talk.warn(f"{word} is an option of XLA and has no effect here")
    return guarded(talk, lambda: row.load()(arguments, talk))


def _print(text: str) -> int:
    sys.stdout.write(text)
    return Exit.OK


def _print_help(command: str) -> int:
    from hloc.cli.help import help_text

    return _print(help_text(command))


def _silence_stdout() -> None:
    """Let the interpreter's last flush go nowhere: the reader has left."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
