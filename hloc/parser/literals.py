"""Literals: from text to values (format reference, section 9).

Data in XLA's spelling, however large, is read row by row with `str.split` and NumPy. All other
texts, and all faults, are read token by token, which gives the position of the fault.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Any

import numpy as np

from hloc.dtypes import DType
from hloc.errors import HloError
from hloc.limits import current_limits, limit_note
from hloc.literal import Literal, written_scalar
from hloc.parser.grammar_file import terminal
from hloc.parser.literal_elements import NUMBER, BadElement, elements_of
from hloc.parser.scanner import COMMENT, after_blanks, fault, strip_comments
from hloc.shapes import UNBOUNDED, ArrayShape, Shape, TupleShape
from hloc.source import SourceFile

MAX_RANK = 64
"""Most dimensions of a literal; NumPy has no more."""

_ELEMENT = rf"(?:{NUMBER}|{terminal('NON_FINITE')}|{terminal('TRUTH')})"
_TOKEN = re.compile(rf"({_ELEMENT})|(\.\.\.)|([{{}}(),])")
# Elements are in the innermost braces only, each followed by a blank, a comma or a brace.
_INNERMOST = rf"\{{(?:[ \t\r\n,]|{_ELEMENT}(?=[ \t\r\n,}}]))*+\}}"
_PLAIN_ARRAY = re.compile(rf"(?:{_INNERMOST}|[{{}} \t\r\n,])*+")
_BLANKS = r"[ \t\r\n]*+"
_PAIR = rf"\({_BLANKS}{_ELEMENT}{_BLANKS},{_BLANKS}{_ELEMENT}{_BLANKS}\)"
_PLAIN_PAIRS = re.compile(rf"(?:\{{(?:[ \t\r\n,]|{_PAIR})*+\}}|[{{}} \t\r\n,])*+")
_OF_ELEMENTS, _OF_PAIRS = str.maketrans(",", " "), str.maketrans("(),", "   ")
_ROW = re.compile(r"\{([^{}]*+)\}")
_ELIDED = re.compile(r"\{[ \t\r\n,]*+(?:\.\.\.[ \t\r\n,]*+)++\}")


def parse_literal(
    source: SourceFile, text: str, at: int, shape: Shape, fast: bool = True
) -> Literal:
    """Return the literal of `shape` that `text`, found at offset `at`, spells.

    Raises:
        HloError: wrong nesting or count, an element outside the range of its type, or a shape
            that has no literals (tokens, buffers).
    """
    reader = _Reader(source, at, at + len(text), fast)
    literal = reader.value(shape)
    reader.expect_end()
    return literal


class _Reader:
    """A cursor over the literal text."""

    def __init__(self, source: SourceFile, at: int, end: int, fast: bool) -> None:
        self.fast = fast
        self.source = source
        self.text = source.text
        self.at = at
        self.end = end

    def fail(self, at: int, message: str, length: int = 1) -> HloError:
        return fault(self.source, at, at + length, message, "HLOC0211")

    def _check_size(self, shape: ArrayShape, start: int) -> None:
        most = current_limits().constant_bytes
        if shape.elements * shape.dtype.storage_bytes > most:
            note = limit_note("constant-bytes")
            raise self.fail(
                start, f"a literal of shape {shape} is larger than {most} bytes; {note}"
            )

    def skip(self) -> None:
        self.at = after_blanks(self.text, self.at, self.end)

    def expect_end(self) -> None:
        self.skip()
        if self.at < self.end:
            raise self.fail(self.at, f"unexpected {self.text[self.at]!r} after the literal")

    def value(self, shape: Shape) -> Literal:
        """Read one literal of `shape`."""
        if isinstance(shape, TupleShape):
            return self._tuple(shape)
        if not isinstance(shape, ArrayShape) or shape.dtype.is_special or UNBOUNDED in shape.dims:
            raise self.fail(self.at, f"a literal of shape {shape} is not possible")
        if shape.rank > MAX_RANK:
            raise self.fail(self.at, f"a literal has at most {MAX_RANK} dimensions")
        return self._array(shape)

    def _tuple(self, shape: TupleShape) -> Literal:
        self._expect("(", "in front of the tuple's elements")
        parts = []
        for number, element in enumerate(shape.elements):
            self.skip()
            if number and self.text.startswith(",", self.at):
                self.at += 1
                self.skip()
            parts.append(self.value(element))
        self._expect(")", f"after {len(parts)} tuple elements")
        return Literal(shape, tuple(parts))

    def _expect(self, char: str, where: str) -> None:
        self.skip()
        if self.at >= self.end or self.text[self.at] != char:
            found = repr(self.text[self.at]) if self.at < self.end else "the end"
            raise self.fail(min(self.at, self.end - 1), f"expected '{char}' {where}, found {found}")
        self.at += 1

    def _array(self, shape: ArrayShape) -> Literal:
        """Read an array: fast in XLA's spelling, else token by token, which finds faults."""
        self.skip()
        start = self.at
        end = self._array_end(shape)
        if shape.rank == 0 or not self.text.startswith("{", start):
            return self._scalar_text(shape, start)
        text = strip_comments(self.text[start:end])
        if _ELIDED.fullmatch(text):
            self.at = end
            return Literal(shape, None)
        self._check_size(shape, start)
        tokens = _plain_tokens(text, shape) if self.fast else None
        if tokens is not None:
            try:
                flat = elements_of(tokens, shape.dtype)
            except BadElement:
                tokens = None  # read again, to say where
        if tokens is None:
            flat = self._read_by_tokens(shape)
        self.at = end
        return _literal(shape, flat)

    def _array_end(self, shape: ArrayShape) -> int:
        """Return the offset after the braces that open here; brackets are known to match."""
        if not self.text.startswith("{", self.at):
            return self.end
        depth = 0
        for found in _BRACE.finditer(self.text, self.at, self.end):
            if found.group() == "{":
                depth += 1
            elif found.group() == "}":
                depth -= 1
                if depth == 0:
                    return found.end()
        raise self.fail(self.at, f"unterminated literal of shape {shape}")

    def _scalar_text(self, shape: ArrayShape, start: int) -> Literal:
        """Read one element without braces; in an array XLA sets the first, the rest is 0."""
        if shape.rank == 0 and self.fast and not shape.dtype.is_complex:
            written = written_scalar(shape, self._word())
            if written is not None:
                return written
            self.at = start
        element = self._element(shape.dtype, start)
        if shape.rank == 0:
            return _literal(shape, element)
        if shape.elements == 0 or shape.dtype.is_complex:
            raise self.fail(start, f"expected '{{' in front of the values of shape {shape}")
        if not element.view(np.uint8).any():
            if shape.elements > 2**40:
                raise self.fail(start, f"a literal of shape {shape} is too large")
            return Literal(shape, np.broadcast_to(element[0], shape.dims))
        self._check_size(shape, start)
        flat = np.zeros(shape.elements, shape.dtype.numpy)
        flat[0] = element[0]
        return _literal(shape, flat)

    def _element(self, dtype: DType, start: int) -> np.ndarray[Any, Any]:
        """Read one element."""
        if dtype.is_complex:
            return self._checked(*self._pair(dtype), dtype)
        return self._checked([self._word()], [start], dtype)

    def _pair(self, dtype: DType) -> tuple[list[str], list[int]]:
        """Read the parts of a complex value, in parentheses; return them and where they are."""
        self._expect("(", f"in front of a {dtype.name} value")
        words, places = [], []
        for part in range(2):
            if part:
                self._expect(",", f"between the parts of a {dtype.name} value")
            self.skip()
            places.append(self.at)
            words.append(self._word())
        self._expect(")", f"after a {dtype.name} value")
        return words, places

    def _word(self) -> str:
        self.skip()
        found = _TOKEN.match(self.text, self.at, self.end)
        if found is None or found.group(1) is None:
            shown = repr(self.text[self.at]) if self.at < self.end else "nothing"
            raise self.fail(min(self.at, self.end - 1), f"expected a value but found {shown}")
        self.at = found.end()
        return found.group(1)

    def _checked(self, words: list[str], places: list[int], dtype: DType) -> np.ndarray[Any, Any]:
        try:
            return elements_of(words, dtype)
        except BadElement as bad:
            raise self.fail(places[bad.index], str(bad), len(words[bad.index])) from None

    def _read_by_tokens(self, shape: ArrayShape) -> np.ndarray[Any, Any]:
        """Read nested braces token by token, counting per dimension as XLA does."""
        dims, dtype = shape.dims, shape.dtype
        words: list[str] = []
        places: list[int] = []
        counts: list[int] = []
        while True:
            self.skip()
            found = _TOKEN.match(self.text, self.at, self.end)
            if found is None:
                shown = repr(self.text[self.at]) if self.at < self.end else "the end"
                raise self.fail(min(self.at, self.end - 1), f"unexpected {shown} in a literal")
            at, token = self.at, found.group()
            if token == "{":
                self._open(counts, dims, at)
            elif token == "}":
                self._close(counts, dims, at)
                if not counts:
                    break
            elif token == "...":
                raise self.fail(at, "'...' stands for all values, in the outermost braces only", 3)
            elif token == ")":
                raise self.fail(at, "unexpected ')' in a literal")
            elif token != ",":
                if len(counts) != len(dims):
                    raise self.fail(
                        at,
                        f"expected {len(dims)} nested braces around a value, found {len(counts)}",
                    )
                counts[-1] += 1
                if dtype.is_complex:
                    pair, at_parts = self._pair(dtype)
                    words += pair
                    places += at_parts
                    continue
                words.append(token)
                places.append(at)
            self.at = found.end()
        self.at += 1
        return self._checked(words, places, dtype)

    def _open(self, counts: list[int], dims: tuple[int, ...], at: int) -> None:
        if len(counts) == len(dims):
            raise self.fail(at, f"expected {len(dims)} levels of braces, found more")
        if counts:
            counts[-1] += 1
        counts.append(0)

    def _close(self, counts: list[int], dims: tuple[int, ...], at: int) -> None:
        level = len(counts) - 1
        if counts[level] != dims[level]:
            where = ",".join(str(n - 1) for n in counts[:-1])
            raise self.fail(
                at,
                f"expects {dims[level]} elements in the [{where}]th element, "
                f"but sees {counts[level]}",
            )
        counts.pop()


_BRACE = re.compile(rf"[{{}}]|{COMMENT}")


def _literal(shape: ArrayShape, flat: np.ndarray[Any, Any]) -> Literal:
    value = flat.reshape(shape.dims)
    value.flags.writeable = False
    return Literal(shape, value)


def _plain_tokens(text: str, shape: ArrayShape) -> list[str] | None:
    """Return the texts of numbers if braces and counts fit `shape`, else None."""
    is_complex = shape.dtype.is_complex
    if not (_PLAIN_PAIRS if is_complex else _PLAIN_ARRAY).fullmatch(text):
        return None
    dims = shape.dims
    most = dims[-1] * (2 if is_complex else 1)
    # A NaN with a payload has parentheses, too: in a pair it is one word too many.
    separators = _OF_PAIRS if is_complex else _OF_ELEMENTS
    tokens: list[str] = []
    rows = 0
    for row in _ROW.finditer(text):
        found = row.group(1).translate(separators).split()
        if len(found) != most:
            return None
        tokens += found
        rows += 1
    # The rows are valid; now compare the braces around them with the only legal form.
    braces = re.sub(r"[^{}]++", "", text)
    groups = list(accumulate(dims[:-1], lambda a, b: a * b, initial=1))
    if rows != groups[-1] or len(braces) > 2 * sum(groups):
        return tokens if rows == 0 and _is_empty(braces, dims) else None
    expected = "{}"
    for size in reversed(dims[:-1]):
        expected = "{" + expected * size + "}"
    return tokens if braces == expected else None


def _is_empty(braces: str, dims: tuple[int, ...]) -> bool:
    return braces == "{}" and dims[0] == 0
