"""Level 2 of the grammar: the Lark instance of shapes and attribute values, and its callbacks.

Imported on demand, as `structure.py` is; `plain_values.py` reads most texts without it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from lark import Lark, Transformer
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from hloc.parser.common_values import CommonValueCallbacks
from hloc.parser.device_values import DeviceCallbacks
from hloc.parser.opcode_values import OpcodeValueCallbacks
from hloc.parser.shape_values import ShapeCallbacks
from hloc.parser.tables import make_parser
from hloc.parser.value_tools import BadText, constant, int_of, of_all, of_first

STARTS = [
    "shape", "parameters", "number", "int_list", "int_lists", "bool_list", "words", "names",
    "shapes", "window",
    "dim_labels", "slice", "padding", "result_accuracy", "output_to_operand_aliasing",
    "replica_groups", "sharding", "domain", "metadata", "statistics", "origin", "debug_attributes",
    "entry_computation_layout", "input_output_alias", "buffer_donor", "propagation",
]  # fmt: skip
"""The rules at which a text may begin."""


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

    true = constant(True)
    false = constant(False)
    word = of_first(str)

    name = word

    def ints(self, children: list[Any]) -> tuple[int, ...]:
        return tuple(int_of(token) for token in children)

    some_ints = ints
    int_list = of_first()
    _collected = of_all()

    int_lists = bool_list = words = names = slice = _collected


@cache
def _lark() -> Lark:
    return make_parser(STARTS, "contextual", _ToValue())


def parse_value(rule: str, text: str) -> Any:
    """Return the value of `text` by grammar rule `rule`.

    Raises:
        BadText: it does not conform to the rule.
        BadValue, ValueError: it conforms, but its value is invalid.
    """
    try:
        return _lark().parse(text, start=rule)
    except UnexpectedInput as error:
        what = "shape" if rule == "shape" else rule.replace("_", " ")
        offset = error.pos_in_stream
        at_end = isinstance(error, UnexpectedToken) and error.token.type == "$END"
        if at_end or offset is None:
            raise BadText(f"{what} ends too early", len(text)) from None
        if isinstance(error, UnexpectedCharacters):
            raise BadText(f"unexpected {text[offset]!r} in {what}", offset) from None
        raise BadText(f"unexpected '{error.token}' in {what}", offset) from None
