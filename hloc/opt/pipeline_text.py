"""Reads the text form of a pipeline."""

from __future__ import annotations

import re
from collections.abc import Callable

from hloc.errors import HloError
from hloc.opt.pass_base import Pass, make_pass
from hloc.opt.registry import pass_class

_TOKEN = re.compile(r"\s*([\w./+-]+|[{}(),=])")
_MAX_DEPTH = 8
_GROUPS = ("fixpoint", "fix")
MakeFixpoint = Callable[[tuple[Pass, ...], int], Pass]


def parse_passes(text: str, fixpoint: MakeFixpoint) -> tuple[Pass, ...]:
    """Return the passes in `text`; `fixpoint` makes those of `fixpoint(...)` or `fix(...)`.

    Raises:
        HloError: an unknown pass or option, or an invalid text.
    """
    reader = _Reader(text, fixpoint)
    passes = reader.passes(0)
    reader.expect("")
    return passes


class _Reader:
    """A cursor over the tokens of a pipeline text; passes with equal texts are one object."""

    def __init__(self, text: str, fixpoint: MakeFixpoint) -> None:
        self.tokens = _tokens(text)
        self.position = 0
        self.fixpoint = fixpoint
        self.made: dict[tuple[str, tuple[tuple[str, str], ...]], Pass] = {}

    @property
    def next(self) -> str:
        return self.tokens[self.position]

    def take(self) -> str:
        token = self.next
        self.position += 1
        return token

    def expect(self, token: str) -> None:
        found = self.take() if self.next else ""
        if found != token:
            raise HloError(
                f"pipeline: expected {_shown(token)} after "
                f"{' '.join(self.tokens[: self.position - 1])!r}, found {_shown(found)}"
            )

    def passes(self, depth: int) -> tuple[Pass, ...]:
        found: list[Pass] = []
        if depth > _MAX_DEPTH:
            raise HloError(f"pipeline: fixpoints are nested more than {_MAX_DEPTH} deep")
        if self.next in ("", ")"):
            return ()
        while True:
            found.append(self.one_pass(depth))
            if self.next != ",":
                return tuple(found)
            self.take()

    def one_pass(self, depth: int) -> Pass:
        name = self.word("the name of a pass")
        options = self.options() if self.next == "{" else []
        if name not in _GROUPS:
            key = (name, tuple(options))
            if key not in self.made:
                self.made[key] = make_pass(pass_class(name), options)
            return self.made[key]
        limit = 25
        for option, value in options:
            if option != "limit" or not value.isdecimal() or not 0 < int(value) <= 1000:
                raise HloError("fixpoint has one option, limit, a number from 1 to 1000")
            limit = int(value)
        self.expect("(")
        inner = self.passes(depth + 1)
        self.expect(")")
        return self.fixpoint(inner, limit)

    def options(self) -> list[tuple[str, str]]:
        self.take()
        found: list[tuple[str, str]] = []
        while self.next != "}":
            name = self.word("the name of an option")
            self.expect("=")
            found.append((name, self.word("a value")))
            if self.next != "}":
                self.expect(",")
        self.take()
        return found

    def word(self, what: str) -> str:
        if not self.next or self.next in "{}(),=":
            raise HloError(f"pipeline: expected {what}, found {_shown(self.next)}")
        return self.take()


def _tokens(text: str) -> list[str]:
    found: list[str] = []
    position, end = 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            raise HloError(f"pipeline: unexpected character {text[position:].lstrip()[0]!r}")
        found.append(match[1])
        position = match.end()
    return [*found, ""]


def _shown(token: str) -> str:
    return repr(token) if token else "the end"
