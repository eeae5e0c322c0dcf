"""Shapes and attribute values: from text to value, by level 2 of the grammar.

`ValueReader` parses each distinct text once, because real modules repeat themselves: a 4 MB
dump has about 200 distinct shapes and 300 distinct attribute texts.
"""

from __future__ import annotations

from typing import Any

from hloc.errors import Diagnostic, HloError
from hloc.parser.plain_values import read_plain
from hloc.parser.scanner import blank_comments
from hloc.parser.value_tools import BadText, BadValue
from hloc.shapes import Shape
from hloc.source import SourceFile, Span


class ValueReader:
    """Parses value texts of one source, each distinct text once."""

    def __init__(self, source: SourceFile, fast: bool = True) -> None:
        self.source = source
        self.fast = fast
        self._known: dict[tuple[str, str], Any] = {}

    def read(self, rule: str, text: str, at: int, code: str = "HLOC0205") -> Any:
        """Return the value of `text`, found at offset `at`, by grammar rule `rule`.

        Raises:
            HloError: the text does not fit the rule, or names something that does not exist.
        """
        key = (rule, text)
        if key in self._known:
            return self._known[key]
        value = self._known[key] = self._parse(rule, text, at, code)
        return value

    def shape(self, text: str, at: int) -> Shape:
        """Return the shape written `text` at offset `at`."""
        found: Shape = self.read("shape", text, at, "HLOC0201")
        return found

    def _parse(self, rule: str, text: str, at: int, code: str) -> Any:
        try:
            if self.fast:
                plain = blank_comments(text)
                found = read_plain(
                    rule, plain, lambda array, offset: self.shape(array, at + offset)
                )
                if found is not None:
                    return found
            from hloc.parser.value_grammar import parse_value

            return parse_value(rule, text)
        except (BadValue, ValueError) as error:
            raise self._fault(str(error), at, at + len(text), code) from None
        except BadText as error:
            start = at + min(error.offset, max(len(text) - 1, 0))
            raise self._fault(str(error), start, start + 1, code) from None

    def _fault(self, message: str, start: int, end: int, code: str) -> HloError:
        return HloError([Diagnostic(message, Span(self.source, start, end), (), code)])
