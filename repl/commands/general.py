"""Settings, help, the shell."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout

import hloc
from hloc.errors import HloError
from hloc.near_names import near_name_notes
from hloc.ops import OPCODES
from hloc.opt.registry import PASSES, has_pass
from repl.commands.row import Command, Help, Results
from repl.results import HelpOn, Message, ModuleText, Quit, Report, Table
from repl.session import Session
from repl.settings import SETTINGS

_SHELL_SECONDS = 600


def _set(session: Session, rest: str) -> Results:
    """Show all settings, show one, or change one, by `NAME=VALUE` or `NAME VALUE`."""
    key, equals, value = rest.partition("=")
    if not rest:
        rows = tuple(
            (row.key, session.settings.text(row.key), row.summary) for row in SETTINGS.values()
        )
        yield Table("", (), rows)
        return
    if not equals:
        key, _, value = rest.partition(" ")
    key, value = key.strip().replace("_", "-"), value.strip()
    if not value:
        yield Message(f"{key} = {session.settings.text(key)}")
        return
    value = session.settings.set(key, value)
    if key == "seed":
        session.inputs.seed = int(value)
    session.stepping = None
    yield Message(f"{key} = {value}")


def help_on(word: str, commands: Mapping[str, Command], aliases: Mapping[str, str]) -> object:
    """Return the help on a command, pass, opcode or setting; "" gives all commands.

    Raises:
        HloError: nothing has that name.
    """
    if not word:
        return Help(tuple(commands.values()))
    name = aliases.get(word, word)
    if name in commands:
        return Help((commands[name],))
    if word in SETTINGS:
        row = SETTINGS[word]
        return Message(f"set {row.key}={'|'.join(row.choices) or 'VALUE'}: {row.summary}")
    if has_pass(word) or word in OPCODES:
        from hloc.report.describe import describe

        return Report(describe(word), prose=True)
    known = [*commands, *SETTINGS, *PASSES, *OPCODES]
    raise HloError(
        f"no command, pass, opcode or setting named {word!r}", notes=near_name_notes(word, known)
    )


def _shell(session: Session, rest: str) -> Results:
    if sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty():
        code = subprocess.run(rest, shell=True, check=False).returncode
    else:
        try:
            done = subprocess.run(
                rest, shell=True, check=False, text=True, errors="replace", timeout=_SHELL_SECONDS,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise HloError(f"the command took more than {_SHELL_SECONDS} s") from None
        code = done.returncode
        if done.stdout:
            yield ModuleText(done.stdout)
    if code:
        raise HloError(f"the command ended with exit code {code}")


def _py(session: Session, rest: str) -> Results:
    """Run the user's Python, an expression or a statement, in this process."""
    module = session.current.module if session.is_loaded else None
    names: dict[str, object] = {"m": module, "h": hloc, "s": session}
    out = io.StringIO()
    try:
        with redirect_stdout(out):
            value = _python(rest, names)
    except Exception as fault:
        raise HloError(f"{type(fault).__name__}: {fault}") from fault
    if out.getvalue():
        yield ModuleText(out.getvalue())
    if value is not None:
        yield ModuleText(repr(value))


def _python(text: str, names: dict[str, object]) -> object:
    """Return the value of an expression, None after a statement."""
    try:
        code = compile(text, "<py>", "eval")
    except SyntaxError:
        exec(compile(text, "<py>", "exec"), names)
        return None
    return eval(code, names)


def _trace(session: Session, rest: str) -> Results:
    yield ModuleText(session.last_fault) if session.last_fault else Message("no pass has failed")


ROWS = (
    Command("set", "set [KEY=VALUE]", "change a setting, or list all", _set, "setting", True),
    Command("theme", "theme NAME", "colour theme: dark, light, mono or colorblind",
            lambda session, rest: _set(session, f"theme={rest}"), "theme", question="which theme?"),
    Command("py", "py EXPRESSION", "evaluate Python; m is the module, s the session, h hloc", _py,
            question="py what?"),
    Command("trace", "trace", "print the Python traceback of the last failed pass", _trace),
    Command("help", "help [WORD]", "help on commands, or on a command, pass, opcode or setting",
            lambda _session, rest: HelpOn(rest),
            "command"),
    Command("!", "!COMMAND", "run a shell command", _shell, question="which command?"),
    Command("quit", "quit", "leave", lambda _session, _rest: Quit()),
)  # fmt: skip
