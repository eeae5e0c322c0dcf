"""Level 2 of the grammar: the text of a shape or an attribute value to its value.

Every distinct text is parsed once (`ValueReader` remembers), because real modules repeat: a 4 MB
dump has about 200 distinct shapes and 300 distinct attribute texts.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from lark import Lark, Transformer
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from hloc.errors import Diagnostic, HloError
from hloc.ir.attributes import EntryLayout
from hloc.parser.common_values import (
    CommonValueCallbacks,
    plain_aliases,
    plain_metadata,
)
from hloc.parser.device_values import DeviceCallbacks
from hloc.parser.opcode_values import OpcodeValueCallbacks
from hloc.parser.shape_values import ShapeCallbacks, plain_array
from hloc.parser.tables import make_parser
from hloc.parser.value_tools import BadValue, int_of
from hloc.shapes import Shape, TupleShape
from hloc.source import SourceFile, Span

_STARTS = [
    "shape", "number", "int_list", "int_lists", "bool_list", "words", "names", "shapes", "window",
    "dim_labels", "slice", "padding", "result_accuracy", "output_to_operand_aliasing",
    "replica_groups", "sharding", "domain", "metadata", "statistics", "origin",
    "entry_computation_layout", "input_output_alias", "buffer_donor", "propagation",
]  # fmt: skip


class _ToValue(
    ShapeCallbacks,
    OpcodeValueCallbacks,
    DeviceCallbacks,
    CommonValueCallbacks,
    Transformer[Any, Any],
):
    """Callbacks by rule name; each returns the finished value."""

    def __init__(self) -> None:
        super().__init__(visit_tokens=False)

    def number(self, children: list[Any]) -> int | float:
        token = children[0]
        return int_of(token) if token.type == "INT" else float(token)

    def true(self, _children: list[Any]) -> bool:
        return True

    def false(self, _children: list[Any]) -> bool:
        return False

    def word(self, children: list[Any]) -> str:
        return str(children[0])

    name = word

    def ints(self, children: list[Any]) -> tuple[int, ...]:
        return tuple(int_of(token) for token in children)

    def int_list(self, children: list[Any]) -> tuple[int, ...]:
        found: tuple[int, ...] = children[0]
        return found

    def _collected(self, children: list[Any]) -> tuple[Any, ...]:
        return tuple(children)

    int_lists = bool_list = words = names = slice = _collected


@cache
def _lark() -> Lark:
    return make_parser(_STARTS, "contextual", _ToValue())


_PLAIN_ARRAY = re.compile(r"([a-z]\w*+)\[([0-9,]*+)\](?:\{([0-9,]++)\})?+", re.ASCII)
_PLAIN_INTS = re.compile(r"\{[0-9]{1,18}(?:,[0-9]{1,18})*+\}")
# Flat lists of plain arrays: the result tuples and entry layouts of real modules have thousands.
_ARRAY = r"[a-z]\w*+\[[0-9,]*+\](?:\{[0-9,]*+\})?+"
_ARRAYS = rf"{_ARRAY}(?:, ?+(?:/\*index=[0-9]++\*/)?+{_ARRAY})*+"
_ONE_ARRAY = re.compile(_ARRAY, re.ASCII)
_FLAT_TUPLE = re.compile(rf"\({_ARRAYS}\)", re.ASCII)
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
        what = "shape" if rule == "shape" else rule.replace("_", " ")
        try:
            found = self._plain(rule, text, at)
            if found is not None:
                return found
            return _lark().parse(text, start=rule)
        except (BadValue, ValueError) as error:
            raise self._fault(str(error), at, at + len(text), code) from None
        except UnexpectedInput as error:
            offset = error.pos_in_stream
            at_end = isinstance(error, UnexpectedToken) and error.token.type == "$END"
            if at_end or offset is None:
                message = f"{what} ends too early"
                offset = len(text)
            elif isinstance(error, UnexpectedCharacters):
                message = f"unexpected {text[offset]!r} in {what}"
            else:
                message = f"unexpected '{error.token}' in {what}"
            start = at + min(offset, max(len(text) - 1, 0))
            raise self._fault(message, start, start + 1, code) from None

    def _plain(self, rule: str, text: str, at: int) -> Any:
        """Return the value of a text in XLA's plain spelling without the grammar, else None."""
        if rule == "metadata":
            return plain_metadata(text)
        if rule == "input_output_alias":
            return plain_aliases(text)
        if rule == "shape" and (array := _PLAIN_ARRAY.fullmatch(text)):
            return plain_array(*array.groups())
        if rule == "int_list" and _PLAIN_INTS.fullmatch(text):
            return tuple(map(int, text[1:-1].split(",")))
        if rule == "shape" and _FLAT_TUPLE.fullmatch(text):
            return TupleShape(self._arrays(text, at))
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
