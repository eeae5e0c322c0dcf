"""A cursor in MLIR text: tokens are matched at its position."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NoReturn, TypeVar

from hloc.errors import HloError
from hloc.source import SourceFile, Span

T = TypeVar("T")

_BLANK = re.compile(r"(?:\s|//[^\n]*)*")
_TOKEN = re.compile(r'->|::|"(?:[^"\\\n]|\\.)*"|[%@#!^]?[\w$.-]+|\S')
VALUE = re.compile(r"%(?:\d+|[A-Za-z_$.-][\w$.-]*)(?:#\d+)?")
WORD = re.compile(r"[A-Za-z_][\w$.]*")
INTEGER = re.compile(r"-?(?:0x[0-9a-fA-F]+|\d+)")
STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
SYMBOL = re.compile(r'@(?:[A-Za-z_$.][\w$.-]*|"(?:[^"\\\n]|\\.)*")')
_ESCAPE = re.compile(r"\\([0-9A-Fa-f]{2}|.)")
_SIMPLE_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", '"': '"'}
_CLOSING = {"(": ")", "[": "]", "{": "}", "<": ">"}

MAX_DEPTH = 100
"""Maximum nesting of regions, attributes and types."""


def unescaped(text: str) -> str:
    """Return the contents of a string literal with its escapes replaced."""

    def one(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code, 16)) if len(code) == 2 else _SIMPLE_ESCAPES.get(code, code)

    return _ESCAPE.sub(one, text) if "\\" in text else text


class Cursor:
    """Reads tokens of `source` in order; every error has its place.

    `at` is where the next token begins, `last` where the one before ended.
    """

    def __init__(self, source: SourceFile) -> None:
        self.source = source
        self.text = source.text
        self.at = self.last = 0
        self.depth = 0
        self.skip()

    # ---- positions

    def skip(self) -> None:
        """Skip blanks and comments."""
        self.last = self.at
        match = _BLANK.match(self.text, self.at)
        assert match is not None
        self.at = match.end()

    def fail(self, message: str, start: int = -1, end: int = -1, *notes: str) -> NoReturn:
        """Raise an error at `start..end`, by default at the next token."""
        if start < 0:
            start = self.at
            token = _TOKEN.match(self.text, start)
            end = token.end() if token else start + 1
        raise HloError(message, Span(self.source, start, max(end, start + 1)), notes, "HLOC0401")

    def expected(self, what: str) -> NoReturn:
        """Raise an error: `what` was expected at the next token."""
        token = _TOKEN.match(self.text, self.at)
        found = f"found {token[0]!r}" if token else "the text ends"
        self.fail(f"expected {what}, but {found}")

    # ---- tokens

    def looking_at(self, text: str) -> bool:
        return self.text.startswith(text, self.at)

    def accept(self, text: str) -> bool:
        """Consume punctuation `text` if it is next."""
        if not self.text.startswith(text, self.at):
            return False
        self.at += len(text)
        self.skip()
        return True

    def expect(self, text: str) -> None:
        if not self.accept(text):
            self.expected(f"{text!r}")

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Consume `pattern` if it is next."""
        found = pattern.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
            self.skip()
        return found

    def peek(self, pattern: re.Pattern[str]) -> str:
        """Return what `pattern` matches here, "" if nothing."""
        found = pattern.match(self.text, self.at)
        return found[0] if found else ""

    def accept_word(self, word: str) -> bool:
        """Consume the keyword `word` if it is next."""
        return self.peek(WORD) == word and self.accept(word)

    def need(self, pattern: re.Pattern[str], what: str) -> str:
        """Consume and return what `pattern` matches here; it must match."""
        found = self.match(pattern)
        if found is None:
            self.expected(what)
        return found[0]

    def word(self, what: str = "a word") -> str:
        return self.need(WORD, what)

    def integer(self) -> int:
        text = self.need(INTEGER, "an integer")
        return int(text, 16 if "x" in text else 10)

    def value(self) -> str:
        """Return the name of a value, `%0` or `%0#1`."""
        return self.need(VALUE, "a value such as %0")

    def symbol(self) -> str:
        """Return the name after `@`, without quotes."""
        name = self.need(SYMBOL, "a function name such as @main")[1:]
        return unescaped(name[1:-1]) if name.startswith('"') else name

    def string(self) -> str:
        return unescaped(self.need(STRING, "a string")[1:-1])

    # ---- structure

    def items(self, item: Callable[[], T], opening: str = "", closing: str = "") -> list[T]:
        """Return the items between `opening` and `closing`, separated by commas, read by `item`."""
        if opening:
            self.expect(opening)
        if closing and self.accept(closing):
            return []
        found = [item()]
        while self.accept(","):
            found.append(item())
        if closing:
            self.expect(closing)
        return found

    def deeper(self) -> None:
        """Enter one more level of nesting; the caller leaves it with `depth -= 1`."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail(f"nested more than {MAX_DEPTH} deep")

    def balanced(self) -> str:
        """Consume a bracketed text of any contents, and return it."""
        start, stack = self.at, []
        while True:
            token = _TOKEN.match(self.text, self.at)
            if token is None:
                self.fail("this bracket is not closed", start, start + 1)
            self.at = token.end()
            if token[0] in _CLOSING:
                stack.append(_CLOSING[token[0]])
            elif stack and token[0] == stack[-1]:
                stack.pop()
            if not stack:
                text = self.text[start : self.at]
                self.skip()
                return text
            self.skip()
