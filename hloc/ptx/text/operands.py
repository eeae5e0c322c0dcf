"""The token reader and the grammar of operands."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from hloc.ptx.faults import PtxFault
from hloc.ptx.program import (
    Address,
    Coordinates,
    Group,
    Immediate,
    Negated,
    Operand,
    Pair,
    Register,
    Symbol,
    Vector,
)
from hloc.ptx.text.lexer import Token, tokenize

Resolve = Callable[[str], str]


class TokenReader:
    """The tokens of one text, read in order."""

    def __init__(self, text: str) -> None:
        self.text = text.rstrip("\0")
        self._tokens = tokenize(self.text)
        self._position = 0

    def at_end(self) -> bool:
        """Whether all tokens are read."""
        return self._position >= len(self._tokens) - 1

    def peek(self, ahead: int = 0) -> Token:
        """Return a token ahead without consuming it."""
        return self._tokens[min(self._position + ahead, len(self._tokens) - 1)]

    def next(self) -> Token:
        """Read a token."""
        token = self.peek()
        if self.at_end():
            raise PtxFault("the PTX text ends in the middle of a statement", line=token.line)
        self._position += 1
        return token

    def expect(self, text: str) -> Token:
        """Read a token that must be `text`."""
        token = self.next()
        if token.text != text:
            raise PtxFault(f"expected `{text}` in PTX, found `{token.text}`", line=token.line)
        return token

    def integers(self) -> list[int]:
        """Read a list of integers separated by commas, which may be empty."""
        found = []
        while self.peek().kind == "integer":
            found.append(integer(self.next().text))
            if self.peek().text == ",":
                self.next()
        return found

    def items(self, closing: str) -> Iterator[None]:
        """Yield before each item of a list, which the caller reads, until `closing` is next."""
        while self.peek().text != closing:
            if self.peek().text == ",":
                self.next()
            else:
                yield

    def skip_braces(self) -> None:
        """Skip to the end of the next {...}."""
        while self.next().text != "{":
            pass
        depth = 1
        while depth:
            depth += {"{": 1, "}": -1}.get(self.next().text, 0)

    def labels_of_scope(self) -> list[str]:
        """Return the labels directly inside the scope whose brace was just read."""
        found: list[str] = []
        depth, position = 1, self._position
        while depth and position < len(self._tokens) - 1:
            token = self._tokens[position]
            depth += {"{": 1, "}": -1}.get(token.text, 0)
            is_label = token.kind == "name" and self._tokens[position + 1].text == ":"
            if depth == 1 and is_label:
                found.append(token.text)
            position += 1
        return found


def integer(text: str) -> int:
    """Return the value of an integer literal."""
    return int(text.rstrip("U"), 0)


def read_operand(reader: TokenReader, resolve: Resolve) -> Operand:
    """Read one operand; names are resolved in the current scope."""
    token = reader.peek()
    if token.text == "{":
        return Vector(_read_items(reader, resolve, "{", "}"))
    if token.text == "(":
        return Group(_read_items(reader, resolve, "(", ")"))
    if token.text == "[":
        return _read_address(reader, resolve)
    if token.text == "!":
        reader.next()
        return Negated(Register(resolve(reader.next().text)))
    plain = _read_plain(reader, resolve)
    if reader.peek().text == "|":
        reader.next()
        return Pair(plain, _read_plain(reader, resolve))
    return plain


def _read_items(
    reader: TokenReader, resolve: Resolve, opening: str, closing: str
) -> tuple[Operand, ...]:
    reader.expect(opening)
    items = tuple(read_operand(reader, resolve) for _ in reader.items(closing))
    reader.expect(closing)
    return items


def _read_address(reader: TokenReader, resolve: Resolve) -> Address | Coordinates:
    reader.expect("[")
    base = _read_plain(reader, resolve)
    if reader.peek().text == ",":
        reader.next()
        items = _read_items(reader, resolve, "{", "}")
        reader.expect("]")
        return Coordinates(base, items)
    offset = 0
    if isinstance(base, Symbol):
        offset, base = base.offset, Symbol(base.name)
    elif reader.peek().text in ("+", "-"):
        offset = _read_offset(reader)
    reader.expect("]")
    return Address(base, offset)


def _read_plain(reader: TokenReader, resolve: Resolve) -> Register | Immediate | Symbol:
    """Read a register, a constant or a symbol with its offset."""
    token = reader.next()
    if token.text in ("-", "+"):
        number = _read_plain(reader, resolve)
        if not isinstance(number, Immediate) or number.form != "int":
            raise PtxFault("expected an integer after the sign", line=token.line)
        return Immediate(-number.value if token.text == "-" else number.value)
    if token.kind == "integer":
        return Immediate(integer(token.text))
    if token.kind == "float":
        return _float(token.text)
    if token.kind != "name":
        raise PtxFault(f"expected an operand in PTX, found `{token.text}`", line=token.line)
    name = resolve(token.text)
    if token.text.startswith("%") or name != token.text or token.text == "_":
        return Register(name)
    offset = _read_offset(reader) if reader.peek().text in ("+", "-") else 0
    return Symbol(name, offset)


def _read_offset(reader: TokenReader) -> int:
    sign = -1 if reader.next().text == "-" else 1
    if reader.peek().text == "-":
        reader.next()
        sign = -sign
    return sign * integer(reader.next().text)


def _float(text: str) -> Immediate:
    if text[1] in "fF":
        return Immediate(int(text[2:], 16), "f32")
    if text[1] in "dD":
        return Immediate(int(text[2:], 16), "f64")
    return Immediate(struct.unpack("<Q", struct.pack("<d", float(text)))[0], "f64")
