"""What a shell may complete after `hloc`: commands, their options, and the values of both."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from hloc.cli.commands import COMMANDS
from hloc.cli.option_values import EMIT_KINDS, ListOf, OneOf, emit_kinds
from hloc.cli.options import Option, options_of
from hloc.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Values:
    """The possible completions of a value.

    Attributes:
        words: the known words.
        is_list: several may be given, separated by commas.
        is_file: the name of a file or folder may be given.
    """

    words: tuple[str, ...] = ()
    is_list: bool = False
    is_file: bool = False


def commands() -> tuple[str, ...]:
    """Return "" for `hloc FILE`, then all commands."""
    return ("", *COMMANDS, "help")


def options(command: str) -> tuple[Option, ...]:
    """Return the options of `command`, one row for each that the shell completes."""
    return () if command in ("help", "repl") else options_of(command)


def values_of(option: Option) -> Values:
    """Return the completions after the `=` of `option`."""
    if option.dest in _OPTION_WORDS:
        words = _OPTION_WORDS[option.dest]()
        return Values(words, is_list=option.dest != "target")
    if isinstance(option.convert, OneOf | ListOf):
        return Values(option.convert.choices, isinstance(option.convert, ListOf))
    if option.convert is emit_kinds:
        return Values(EMIT_KINDS, is_list=True)
    fixed = tuple(w for w in option.metavar.split("|") if "|" in option.metavar and "." not in w)
    is_file = any(word in option.metavar for word in _FILE_WORDS)
    return Values(fixed, is_file=is_file)


def positional(command: str) -> Values:
    """Return the completions of the positional words of `command`."""
    words = _COMMAND_WORDS.get(command)
    return Values(is_file=True) if words is None else Values(words(), is_file=command == "learn")


_FILE_WORDS = ("FILE", "DIR", "BEFORE")


@cache
def _passes() -> tuple[str, ...]:
    from hloc.opt.registry import PASSES

    return tuple(sorted(PASSES))


@cache
def _rules() -> tuple[str, ...]:
    from hloc.report.describe import all_rules

    return tuple(sorted({rule.name for rule in all_rules()}))


@cache
def _opcodes() -> tuple[str, ...]:
    from hloc.ops import OPCODES

    return tuple(sorted(OPCODES))


@cache
def _targets() -> tuple[str, ...]:
    from hloc.codegen.backend_names import backend_names
    from hloc.codegen.llvm.machines import MACHINES

    return tuple(dict.fromkeys((*backend_names(), *(row.arch for row in MACHINES))))


@cache
def _explained() -> tuple[str, ...]:
    from hloc.diagnostics import EXPLANATIONS
    from hloc.report.explanation import EXIT_CODE_WORD

    return (EXIT_CODE_WORD, *EXPLANATIONS, *_passes(), *_rules(), *_opcodes())


@cache
def _lessons() -> tuple[str, ...]:
    from hloc.learn.catalogue import WORDS, all_lessons

    return (*WORDS, *(str(lesson.number) for lesson in all_lessons()))


def _none() -> tuple[str, ...]:
    return ()


_OPTION_WORDS: dict[str, Callable[[], tuple[str, ...]]] = {
    "passes": _passes,
    "disable_pass": _passes,
    "print_after": _passes,
    "trace_rewrites": lambda: (*_passes(), *_rules()),
    "disable_rule": _rules,
    "target": _targets,
}
"""Option -> the names that it takes, from tables of other packages."""

_COMMAND_WORDS: dict[str, Callable[[], tuple[str, ...]]] = {
    "help": lambda: tuple(COMMANDS),
    "passes": _passes,
    "rules": _rules,
    "ops": _opcodes,
    "targets": _targets,
    "explain": _explained,
    "learn": _lessons,
    "completion": lambda: ("bash", "zsh", "fish"),
    "doctor": _none,
    "cache": _none,
    "lsp": _none,
}
"""Command -> the words that it takes; the others take files."""
