"""The attributes of an instruction: from text to the row's record, common attributes, references.

Nothing here depends on the position of the instruction, so equal attribute lists of one opcode are
read once (`AttributeReader` caches them); names of computations and instructions stay names.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import Any

from hloc.errors import Diagnostic, HloError
from hloc.ir.attribute_fields import AttributeField, attribute_fields, quoted
from hloc.ir.attributes import NO_COMMON, CommonAttributes, RawText
from hloc.ir.literal_text import literal_text
from hloc.ir.opcode import CalledRole, Opcode
from hloc.lazy_dataclass import dataclass
from hloc.near_names import did_you_mean
from hloc.parser.ast import AttributeAst, Piece
from hloc.parser.grammar_file import terminal
from hloc.parser.literals import parse_literal
from hloc.parser.scanner import (
    NAME,
    after_blanks,
    after_bracket,
    after_string,
    fault,
    raw_text,
    strip_comments,
)
from hloc.parser.strings import unquote
from hloc.parser.values import ValueReader
from hloc.source import SourceFile, Span

COMMON_NAMES = (
    "backend_config", "control-predecessors", "frontend_attributes", "metadata", "origin",
    "parameter_replication", "sharding", "statistics",
)  # fmt: skip

# Attributes that XLA reads and drops: opcode -> names.
_DROPPED = {
    "all-reduce": ("mode",),
    "all-reduce-start": ("mode",),
    "reduce-scatter": ("mode",),
    "ragged-all-to-all": ("dimensions",),
    "async-update": ("calls", "async_execution_thread"),
    "async-done": ("calls", "async_execution_thread"),
}
# Attributes whose rule is determined by their name, whatever their kind in the row.
_RULE_OF_NAME = {
    "output_to_operand_aliasing": "output_to_operand_aliasing",
    "domain": "domain",
    "source_target_pairs": "int_lists",
}
_RULE_OF_KIND = {
    "int_list": "int_list", "int_list_list": "int_lists", "window": "window",
    "dim_labels": "dim_labels", "slice": "slice", "padding": "padding", "shape": "shape",
    "shape_list": "shapes", "replica_groups": "replica_groups", "sharding": "sharding",
}  # fmt: skip
_INTEGER = re.compile(terminal("INT"))
_FLOAT = re.compile(rf"{terminal('DECIMAL')}|{terminal('INT')}|-?inf|-?nan")
_NAME = re.compile(NAME)


@dataclass(frozen=True, slots=True)
class CalledReference:
    """A computation that an attribute names, or contains inline (starting with `{`)."""

    role: str
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class InstructionAttributes:
    """The attribute list of one instruction; offsets are relative to the list.

    Attributes:
        values: fields of the row's attributes dataclass.
        called: named computations by role.
        control: names of control predecessors.
        seen: every attribute name in the text.
    """

    values: dict[str, Any]
    common: CommonAttributes
    called: dict[str, CalledReference]
    control: tuple[Piece, ...]
    seen: frozenset[str]


_NOTHING = InstructionAttributes({}, NO_COMMON, {}, (), frozenset())


class AttributeReader:
    """Reads attribute lists of one source."""

    def __init__(self, source: SourceFile, values: ValueReader) -> None:
        self.source = source
        self.values = values
        self._known: dict[tuple[str, tuple[AttributeAst, ...]], InstructionAttributes] = {}

    def read(
        self, row: Opcode, attributes: tuple[AttributeAst, ...], base: int
    ) -> InstructionAttributes:
        """Return the attributes of an instruction of `row`; their offsets count from `base`.

        Raises:
            HloError: an unknown or repeated attribute, or an invalid value.
        """
        if not attributes:
            return _NOTHING
        key = (row.name, attributes)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._read(row, attributes, base)
        return found

    def _read(
        self, row: Opcode, attributes: tuple[AttributeAst, ...], base: int
    ) -> InstructionAttributes:
        """Sort the attributes of one instruction into fields, common ones, computations and order.

        `base` is the position of the list in the source, for faults.
        """
        fields, roles = _fields_and_roles(row)
        values: dict[str, Any] = {}
        common: dict[str, Any] = {}
        called: dict[str, CalledReference] = {}
        control: tuple[Piece, ...] = ()
        seen: set[str] = set()
        for attribute in attributes:
            name, text = attribute.key, attribute.value
            at = base + attribute.value_at
            if name in seen:
                raise self._fault(attribute, base, f"attribute {name} already exists", "HLOC0203")
            seen.add(name)
            if name in roles:
                role = roles[name]
                called[role.name] = CalledReference(
                    role.name, self._computations(role, text, attribute.value_at, base)
                )
            elif name in fields:
                values[fields[name].field] = self.value(fields[name], text, at)
            elif name == "control-predecessors":
                control = self._names(text, attribute.value_at, base)
            elif name in COMMON_NAMES or (name == "result_accuracy" and row.result_accuracy):
                common[name] = self._common(name, text, at)
            elif name not in _DROPPED.get(row.name, ()):
                raise self._unknown(row, attribute, base)
        return InstructionAttributes(
            values, replace(NO_COMMON, **common) if common else NO_COMMON, called, control,
            frozenset(seen),
        )  # fmt: skip

    def _fault(self, attribute: AttributeAst, base: int, message: str, code: str) -> HloError:
        start = base + attribute.at
        return fault(self.source, start, start + len(attribute.key), message, code)

    def _unknown(self, row: Opcode, attribute: AttributeAst, base: int) -> HloError:
        allowed = sorted(allowed_attributes(row))
        hint = did_you_mean(attribute.key, allowed)
        start = base + attribute.at
        span = Span(self.source, start, start + len(attribute.key))
        message = f"unexpected attribute {attribute.key} of {row.name}{hint}"
        note = "allowed attributes: " + ", ".join(allowed)
        return HloError([Diagnostic(message, span, (note,), "HLOC0202")])

    # ---- values by kind

    def value(self, field: AttributeField, text: str, at: int) -> Any:
        """Return the value of an attribute declared as `field` whose text is at `at`."""
        rule = _RULE_OF_NAME.get(field.name) or _RULE_OF_KIND.get(field.kind)
        if rule is not None:
            return self.values.read(rule, text, at)
        if field.kind == "enum":
            return self._enum(field, text, at)
        if field.kind == "enum_list":
            return tuple(
                self._enum(field, word, at) for word in self.values.read("words", text, at)
            )
        if field.kind == "string":
            return self._string(field.name, text, at)
        if field.name == "literal":
            return self._literal(text, at)
        if field.kind == "raw":
            return raw_text(self.source, text, at)
        return self._simple(field, text, at)

    def _simple(self, field: AttributeField, text: str, at: int) -> Any:
        if field.kind == "bool" and text in ("true", "false"):
            return text == "true"
        if field.kind == "int" and _INTEGER.fullmatch(text[:22]) and -(2**63) <= int(text) < 2**64:
            value = int(text)
            return value - 2**64 if value >= 2**63 else value
        if field.kind == "float" and _FLOAT.fullmatch(text):
            return float(text)
        wanted = {"bool": "true or false", "int": "an integer", "float": "a number"}[field.kind]
        raise self._bad_value(field.name, text, at, wanted)

    def _bad_value(self, name: str, text: str, at: int, wanted: str) -> HloError:
        shown = text if len(text) <= 40 else text[:40] + "..."
        message = f"attribute {name} takes {wanted}, not {shown}"
        return fault(self.source, at, at + len(text), message, "HLOC0205")

    def _enum(self, field: AttributeField, text: str, at: int) -> str:
        word = text.lower() if field.fold_case else text
        if field.choices and word not in field.choices:
            wanted = "one of " + ", ".join(field.choices) + did_you_mean(word, field.choices)
            raise self._bad_value(field.name, text, at, wanted)
        return word

    def _string(self, name: str, text: str, at: int) -> str:
        if text[0] not in "\"'" or after_string(self.source, at, at + len(text)) != at + len(text):
            raise self._bad_value(name, text, at, "a string")
        try:
            return unquote(text)
        except ValueError as error:
            raise fault(self.source, at, at + len(text), str(error), "HLOC0205") from None

    def _literal(self, text: str, at: int) -> RawText:
        """Read `literal=` of a custom-call: each shape, then its data."""
        found = _SHAPE_AND_DATA.fullmatch(text)
        if found is None:
            return raw_text(self.source, text, at)  # a tuple, kept as it is
        shape = self.values.shape(found.group(1), at)
        literal = parse_literal(
            self.source, found.group(2), at + found.start(2), shape, self.values.fast
        )
        return RawText(f"{shape} {literal_text(literal)}")

    # ---- names

    def _computations(
        self, role: CalledRole, text: str, value_at: int, base: int
    ) -> tuple[Piece, ...]:
        if _NAME.fullmatch(text) or (text.startswith("{") and not role.many):
            return (Piece(text, value_at),)
        if role.many and text.startswith("{"):
            return self._list_of_computations(role, text, value_at, base)
        raise self._bad_value(role.name, text, base + value_at, "the name of a computation")

    def _list_of_computations(
        self, role: CalledRole, text: str, value_at: int, base: int
    ) -> tuple[Piece, ...]:
        """Read `{%a, { ... }}`: names, or inline bodies."""
        start, end = base + value_at, base + value_at + len(text) - 1
        pieces: list[Piece] = []
        at = after_blanks(self.source.text, start + 1, end)
        while at < end:
            if pieces:
                if self.source.text[at] != ",":
                    break
                at = after_blanks(self.source.text, at + 1, end)
            found = _NAME.match(self.source.text, at, end)
            if found:
                after = found.end()
            elif self.source.text.startswith("{", at):
                after = after_bracket(self.source, at, end)
            else:
                break
            pieces.append(Piece(self.source.text[at:after], at - base))
            at = after_blanks(self.source.text, after, end)
        if at < end:
            raise self._bad_value(role.name, text, start, "a list of computations")
        return tuple(pieces)

    def _names(self, text: str, value_at: int, base: int) -> tuple[Piece, ...]:
        self.values.read("names", text, base + value_at)
        return tuple(
            Piece(found.group(), value_at + found.start())
            for found in _NAME.finditer(strip_comments(text))
        )

    # ---- common attributes

    def _common(self, name: str, text: str, at: int) -> Any:
        if name == "backend_config":
            return self._string_or_json(name, text, at) or None
        if name == "frontend_attributes":
            return self.frontend_attributes(text, at)
        if name == "parameter_replication":
            return self.values.read("bool_list", text, at)
        return self.values.read(name, text, at)

    def _string_or_json(self, name: str, text: str, at: int) -> str:
        if text.startswith("{"):
            return text
        return self._string(name, text, at)

    def frontend_attributes(self, text: str, at: int) -> tuple[tuple[str, str], ...]:
        """Return sorted pairs of key and printed value; the last of equal keys wins."""
        source, end = self.source.text, at + len(text) - 1
        if not text.startswith("{"):
            raise self._bad_value("frontend_attributes", text, at, "{key=value, ...}")
        pairs: dict[str, str] = {}
        here = after_blanks(source, at + 1, end)
        while here < end:
            found = _FRONTEND_KEY.match(source, here, end)
            if found is None:
                raise fault(self.source, here, here + 1, "expected key=value", "HLOC0205")
            here = after_blanks(source, found.end(), end)
            if here < end and source[here] == "{":
                after = after_bracket(self.source, here, end, json=True)
                value = source[here:after]
            elif here < end and source[here] in "\"'":
                after = after_string(self.source, here, end)
                value = string_or_json(self._string(found.group(1), source[here:after], here))
            else:
                raise fault(self.source, here, here + 1, "expected a string or {...}", "HLOC0205")
            pairs[found.group(1)] = value
            here = after_blanks(source, after, end)
            if here < end:
                if source[here] != ",":
                    raise fault(self.source, here, here + 1, "expected ',' or '}'", "HLOC0205")
                here = after_blanks(source, here + 1, end)
        return tuple(sorted(pairs.items()))


@cache
def _fields_and_roles(row: Opcode) -> tuple[dict[str, AttributeField], dict[str, CalledRole]]:
    """Return the attributes and the called computations of `row` by their names in the text."""
    fields = {f.name: f for f in attribute_fields(row.attributes)}
    roles = {name: role for role in row.calls for name in (role.name, *role.aliases)}
    return fields, roles


_SHAPE_AND_DATA = re.compile(
    r"([a-z]\w*\s*\[[^\]]*\](?:\s*\{\s*[-0-9:][^{}]*\})?)\s*([^\s][\s\S]*)"
)
_FRONTEND_KEY = re.compile(r"([A-Za-z0-9_.\-]+)=")


def string_or_json(value: str) -> str:
    """Return a stored text as XLA prints it: raw if it is one dictionary in braces, else quoted."""
    return value if is_json_dict(value) else quoted(value)


def is_json_dict(value: str) -> bool:
    """Tell whether `value` is one brace-balanced dictionary and nothing else."""
    if not value.startswith("{"):
        return False
    try:
        return after_bracket(SourceFile(value), 0, len(value), json=True) == len(value)
    except HloError:
        return False


def allowed_attributes(row: Opcode) -> set[str]:
    """Return the attribute names that an instruction of `row` may have."""
    names = {*COMMON_NAMES, *(f.name for f in attribute_fields(row.attributes))}
    names |= {name for role in row.calls for name in (role.name, *role.aliases)}
    names |= set(_DROPPED.get(row.name, ()))
    return names | {"result_accuracy"} if row.result_accuracy else names
