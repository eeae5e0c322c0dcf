"""Level 2 of the grammar: the text of a shape or an attribute value to its value.

Every distinct text is parsed once (`ValueReader` remembers), because real modules repeat: a 4 MB
dump has about 200 distinct shapes and 300 distinct attribute texts.
"""

from __future__ import annotations

import re
from typing import Any

from hloc.errors import Diagnostic, HloError
from hloc.ir.attributes import EntryLayout
from hloc.parser.plain_values import PLAIN_READERS
from hloc.parser.scanner import IDENT
from hloc.parser.shape_values import plain_array
from hloc.parser.value_tools import BadText, BadValue
from hloc.shapes import Shape, TupleShape
from hloc.source import SourceFile, Span

_PLAIN_ARRAY = re.compile(r"([a-z]\w*+)\[([0-9,]*+)\](?:\{([0-9,]++)\})?+", re.ASCII)
# Flat lists of plain arrays: the result tuples and entry layouts of real modules have thousands.
_ARRAY = r"[a-z]\w*+\[[0-9,]*+\](?:\{[0-9,]++\})?+"
_ARRAYS = rf"{_ARRAY}(?:, ?+(?:/\*index=[0-9]++\*/)?+{_ARRAY})*+"
_ONE_ARRAY = re.compile(_ARRAY, re.ASCII)
_FLAT_TUPLE = re.compile(rf"\({_ARRAYS}\)", re.ASCII)
_PARAMETER = rf"{IDENT}: (?:{_ARRAY}|\({_ARRAYS}\))"
_FLAT_PARAMETERS = re.compile(rf"\((?:{_PARAMETER}(?:, {_PARAMETER})*+)?\)", re.ASCII)
_FLAT_LIST = re.compile(rf"\{{{_ARRAYS}\}}", re.ASCII)
_FLAT_LAYOUT = re.compile(
    rf"\{{(?P<parameters>\((?:{_ARRAYS})?\))->(?P<result>{_ARRAY}|\({_ARRAYS}\))\}}", re.ASCII
)


class ValueReader:
    """Parses value texts of one source, each distinct text once."""

    def __init__(self, source: SourceFile) -> None:
        self.source = source
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
            found = self._plain(rule, text, at)
            if found is not None:
                return found
            from hloc.parser.value_grammar import parse_value

            return parse_value(rule, text)
        except (BadValue, ValueError) as error:
            raise self._fault(str(error), at, at + len(text), code) from None
        except BadText as error:
            start = at + min(error.offset, max(len(text) - 1, 0))
            raise self._fault(str(error), start, start + 1, code) from None

    def _plain(self, rule: str, text: str, at: int) -> Any:
        """Return the value of a text in XLA's plain spelling without the grammar, else None."""
        plain_reader = PLAIN_READERS.get(rule)
        if plain_reader is not None:
            return plain_reader(text)
        if rule == "shape" and (array := _PLAIN_ARRAY.fullmatch(text)):
            return plain_array(*array.groups())
        if rule == "shape" and _FLAT_TUPLE.fullmatch(text):
            return TupleShape(self._arrays(text, at))
        if rule == "parameters" and _FLAT_PARAMETERS.fullmatch(text):
            return self._arrays(text, at)
        if rule == "shapes" and _FLAT_LIST.fullmatch(text):
            return self._arrays(text, at)
        if rule == "entry_computation_layout" and (found := _FLAT_LAYOUT.fullmatch(text)):
            result = self.shape(found["result"], at + found.start("result"))
            return EntryLayout(self._arrays(found["parameters"], at), result)
        return None

    def _arrays(self, text: str, at: int) -> tuple[Shape, ...]:
        return tuple(
            self.shape(found.group(), at + found.start()) for found in _ONE_ARRAY.finditer(text)
        )

    def _fault(self, message: str, start: int, end: int, code: str) -> HloError:
        return HloError([Diagnostic(message, Span(self.source, start, end), (), code)])
