"""Patterns as text for `find`: `reduce(multiply(_, _))`, `add(x:_, x:_)`, `slice(concatenate)`.

`_` is any instruction, a name is an opcode, a prefix `name:` binds it (the same name twice means
the same instruction), `%x` is an instruction by name, a final `...` matches further operands. An
opcode without parentheses matches any operands.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from hloc.errors import HloError
from hloc.ir.instruction import Instruction
from hloc.near_names import near_name_notes
from hloc.ops import OPCODES
from hloc.opt.pattern import P

_TOKEN = re.compile(r"\s*(\.\.\.|%[\w.\-]+|[A-Za-z_][\w\-]*|[(),:|])")
_MOST_LETTERS = 500
_MOST_DEPTH = 20


def parse_pattern(text: str) -> P:
    """Return the pattern that `text` describes.

    Raises:
        HloError: an invalid text, or an unknown opcode.
    """
    if len(text) > _MOST_LETTERS:
        raise HloError(f"a pattern has at most {_MOST_LETTERS} letters")
    reader = _Reader(text)
    found = reader.pattern(0)
    if reader.next:
        raise HloError(f"pattern: expected the end, found {reader.next!r}")
    return found


class _Reader:
    """A cursor over the tokens of a pattern."""

    def __init__(self, text: str) -> None:
        self.tokens: list[str] = []
        at, end = 0, len(text.rstrip())
        while at < end:
            found = _TOKEN.match(text, at)
            if found is None:
                raise HloError(f"pattern: unexpected {text[at:].lstrip()[:1]!r}")
            self.tokens.append(found[1])
            at = found.end()
        self.position = 0

    @property
    def next(self) -> str:
        return self.tokens[self.position] if self.position < len(self.tokens) else ""

    def take(self) -> str:
        token = self.next
        self.position += 1
        return token

    def pattern(self, depth: int) -> P:
        """Read one instruction of a pattern."""
        if depth > _MOST_DEPTH:
            raise HloError(f"a pattern is at most {_MOST_DEPTH} deep")
        word, bind = self.take(), ""
        if self.next == ":":
            bind = word
            self.take()
            word = self.take()
        if word.startswith("%"):
            return P(bind=bind, when=_is_called(word[1:]))
        if not word:
            raise HloError("pattern: expected an opcode, found the end")
        opcodes = self._opcodes(word)
        if self.next != "(":
            return P(opcodes, bind=bind)
        self.take()
        operands: list[P] = []
        more = False
        while self.next != ")":
            if self.next == "...":
                self.take()
                more = True
                break
            operands.append(self.pattern(depth + 1))
            if self.next == ",":
                self.take()
        if self.take() != ")":
            raise HloError("pattern: expected ')' at the end of the operands")
        return P(opcodes, tuple(operands), bind=bind, more=more or _takes_more(opcodes))

    def _opcodes(self, word: str) -> tuple[str, ...]:
        """Return the opcodes of `_`, `add` or `add|subtract`."""
        if word == "_":
            return ()
        found = [word]
        while self.next == "|":
            self.take()
            found.append(self.take())
        for name in found:
            if name not in OPCODES:
                near = near_name_notes(name, list(OPCODES))
                raise HloError(f"pattern: there is no opcode {name!r}", notes=near)
        return tuple(found)


def _is_called(name: str) -> Callable[[Instruction], bool]:
    return lambda inst: inst.name == name


def _takes_more(opcodes: tuple[str, ...]) -> bool:
    """True if initial values and the like may be omitted: `reduce(multiply(_, _))`."""
    return bool(opcodes) and all(name in _WITH_EXTRAS for name in opcodes)


_WITH_EXTRAS = frozenset(
    (
        "dynamic-slice", "dynamic-update-slice", "fusion", "map", "pad", "reduce", "reduce-window",
        "scatter", "select-and-scatter", "sort",
    )
)  # fmt: skip
