"""Callbacks of attributes that every instruction, or the module, may have."""

from __future__ import annotations

import re
from typing import Any

from hloc.ir.attributes import Alias, EntryLayout, Metadata, RawText, quoted
from hloc.near_names import did_you_mean
from hloc.parser.strings import unquote
from hloc.parser.value_tools import BadValue, index_text, int_of, once


class CommonValueCallbacks:
    """Metadata, origin, statistics, header attributes."""

    def metadata_value(self, children: list[Any]) -> tuple[str, Any]:
        key, value = children
        return str(key), unquote(value) if value.type == "STRING" else int_of(value)

    def metadata_profile(self, children: list[Any]) -> tuple[str, Any]:
        return str(children[0]), children[1]

    def metadata(self, children: list[Any]) -> Metadata:
        return _metadata([child for child in children if isinstance(child, tuple)])

    def origin_leaf(self, children: list[Any]) -> str:
        name, *index = children
        return "{" + quoted(unquote(name)) + (f" {index_text(index[0])}" if index else "") + "}"

    def origin_missing(self, _children: list[Any]) -> str:
        return "{}"

    def origin_tuple(self, children: list[Any]) -> str:
        return "(" + ", ".join(children) + ")"

    def origin_of_values(self, children: list[Any]) -> RawText:
        return RawText("{" + children[0] + "}")

    def origin_of_call(self, children: list[Any]) -> RawText:
        return RawText(f"{{[{children[0]}]}}")

    def statistic(self, children: list[Any]) -> tuple[str, int | float]:
        return str(children[0]), children[1]

    def statistics(self, children: list[Any]) -> RawText | None:
        if len(children) < 2 and not any(key != "visualizing_index" for key, _ in children):
            return None
        return RawText("{" + ",".join(f"{key}={value:g}" for key, value in children) + "}")

    def entry_computation_layout(self, children: list[Any]) -> EntryLayout:
        return EntryLayout(tuple(children[:-1]), children[-1])

    def output_alias(self, children: list[Any]) -> Alias:
        index, parameter, parameter_index, *kind = children
        if kind and kind[0] not in ("may-alias", "must-alias"):
            raise BadValue(f"an alias is may-alias or must-alias, not {kind[0]}")
        if min((int_of(parameter), *index, *parameter_index)) < 0:
            raise BadValue("an alias has a negative number")
        return Alias(
            index, int_of(parameter), parameter_index, bool(kind) and kind[0] == "must-alias"
        )

    def input_output_alias(self, children: list[Any]) -> tuple[Any, ...]:
        return tuple(children)

    def donor(self, children: list[Any]) -> tuple[int, tuple[int, ...]]:
        return int_of(children[0]), children[1]

    def buffer_donor(self, children: list[Any]) -> tuple[Any, ...]:
        return tuple(children)

    def one_bool(self, children: list[Any]) -> tuple[bool, ...]:
        return (children[0],)

    def propagation(self, children: list[Any]) -> tuple[bool, ...]:
        found: tuple[bool, ...] = children[0]
        return found


def _metadata(pairs: list[tuple[str, Any]]) -> Metadata:
    fields = dict(once(pairs))
    for key, value in fields.items():
        wanted = _METADATA_TYPES.get(key)
        if wanted is None:
            raise BadValue(f"unknown metadata {key}{did_you_mean(key, _METADATA_TYPES)}")
        if not isinstance(value, wanted):
            raise BadValue(f"metadata {key} takes {_TYPE_WORDS[wanted]}")
    return Metadata(**fields)


_STRING = r'"(?:[^"\\]++|\\.)*+"'
_TEXTS = "op_type|op_name|source_file|deduplicated_name|scheduling_name"
_NUMBERS = "source_line|source_end_line|source_column|source_end_column|stack_frame_id"
_FIELD = rf"(?:{_TEXTS})={_STRING}|(?:{_NUMBERS})=[0-9]{{1,10}}"
_PLAIN_METADATA = re.compile(rf"\{{(?:(?:{_FIELD})(?: (?=[a-z])|(?=\}})))*+\}}")
_PLAIN_FIELD = re.compile(rf"([a-z_]+)=(?:({_STRING})|([0-9]+))")


def plain_metadata(text: str) -> Metadata | None:
    """Read metadata in XLA's spelling without the grammar; None if it is spelled otherwise.

    3 us instead of 200 for each of the thousands of distinct texts of a large module.
    """
    if not _PLAIN_METADATA.fullmatch(text):
        return None
    found = _PLAIN_FIELD.findall(text)
    fields: dict[str, Any] = {
        key: int(number) if number else unquote(string) for key, string, number in found
    }
    return Metadata(**fields) if len(fields) == len(found) else None


_INDEX = r"\{((?:[0-9]{1,18}(?:, ?[0-9]{1,18})*+)?)\}"
_ALIAS = rf"{_INDEX}: \(([0-9]{{1,18}}), {_INDEX}(?:, (may|must)-alias)?\)"
_PLAIN_ALIASES = re.compile(rf"\{{ ?(?:{_ALIAS}(?:, (?=\{{)|(?= ?\}}$)))*+ ?\}}")
_PLAIN_ALIAS = re.compile(_ALIAS)


def plain_aliases(text: str) -> tuple[Alias, ...] | None:
    """Read input_output_alias in XLA's spelling without the grammar, as `plain_metadata` does.

    A training step has an entry for each of its thousand parameters.
    """
    if not _PLAIN_ALIASES.fullmatch(text):
        return None
    return tuple(
        Alias(_index(output), int(parameter), _index(index), kind == "must")
        for output, parameter, index, kind in _PLAIN_ALIAS.findall(text)
    )


def _index(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(","))) if text else ()


_METADATA_TYPES: dict[str, type] = {
    "op_type": str, "op_name": str, "source_file": str, "source_line": int,
    "source_end_line": int, "source_column": int, "source_end_column": int,
    "profile_type": tuple, "deduplicated_name": str, "scheduling_name": str,
    "stack_frame_id": int, "metadata_payload": str,
}  # fmt: skip
_TYPE_WORDS = {str: "a string", int: "an integer", tuple: "a list of integers"}
