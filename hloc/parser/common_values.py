"""Callbacks of attributes that every instruction, or the module, may have."""

from __future__ import annotations

from typing import Any

from hloc.ir.attribute_fields import quoted
from hloc.ir.attributes import Alias, EntryLayout, Metadata, RawText
from hloc.near_names import did_you_mean
from hloc.parser.strings import unquote
from hloc.parser.value_tools import (
    BadValue,
    constant,
    index_text,
    int_of,
    of_all,
    of_first,
    of_pair,
    once,
)


class CommonValueCallbacks:
    """Metadata, origin, statistics, header attributes."""

    def metadata_value(self, children: list[Any]) -> tuple[str, Any]:
        key, value = children
        return str(key), unquote(value) if value.type == "STRING" else int_of(value)

    metadata_profile = of_pair()

    def metadata(self, children: list[Any]) -> Metadata:
        fields = dict(once([child for child in children if isinstance(child, tuple)]))
        for key, value in fields.items():
            wanted = METADATA_TYPES.get(key)
            if wanted is None:
                raise BadValue(f"unknown metadata {key}{did_you_mean(key, METADATA_TYPES)}")
            if not isinstance(value, wanted):
                raise BadValue(f"metadata {key} takes {_TYPE_WORDS[wanted]}")
        return Metadata(**fields)

    def origin_leaf(self, children: list[Any]) -> str:
        name, *index = children
        return "{" + quoted(unquote(name)) + (f" {index_text(index[0])}" if index else "") + "}"

    origin_missing = constant("{}")

    def origin_tuple(self, children: list[Any]) -> str:
        return "(" + ", ".join(children) + ")"

    def origin_of_values(self, children: list[Any]) -> RawText:
        return RawText("{" + children[0] + "}")

    def origin_of_call(self, children: list[Any]) -> RawText:
        return RawText(f"{{[{children[0]}]}}")

    def debug_field(self, children: list[Any]) -> tuple[str, str]:
        return debug_field_of(str(children[0]), children[1])

    def debug_record(self, children: list[Any]) -> str:
        fields = dict(children)
        return "{" + ",".join(fields[name] for name in _DEBUG_FIELDS if fields.get(name)) + "}"

    debug_list = of_all()

    def debug_entry(self, children: list[Any]) -> tuple[tuple[str, tuple[int, ...]], Any]:
        name, *index, records = children
        return (unquote(name), index[0] if index else ()), records

    def debug_attributes(self, children: list[Any]) -> RawText | None:
        """Return the table in XLA's order, one per line; the last entry of an array wins.

        Records at their default are omitted, since XLA cannot read `{}`.
        """
        lines = []
        for (name, index), found in sorted(dict(children).items()):
            if records := [record for record in found if record != "{}"]:
                array = quoted(name) + (f" {index_text(index)}" if index else "")
                lines.append(f"  {{{array}}}:({','.join(records)})")
        return RawText("{\n" + ",\n".join(lines) + "\n}") if lines else None

    statistic = of_pair()

    def statistics(self, children: list[Any]) -> RawText | None:
        if len(children) < 2 and not any(key != "visualizing_index" for key, _ in children):
            return None
        return RawText("{" + ",".join(f"{key}={value:g}" for key, value in children) + "}")

    def entry_computation_layout(self, children: list[Any]) -> EntryLayout:
        return EntryLayout(tuple(children[:-1]), children[-1])

    def output_alias(self, children: list[Any]) -> Alias:
        index, parameter, parameter_index, *kind = children
        return alias_of(index, int_of(parameter), parameter_index, *kind)

    input_output_alias = of_all()

    donor = of_pair(int_of)
    buffer_donor = of_all()
    one_bool = of_all()
    propagation = of_first()


_DEBUG_FIELDS = ("log_mode", "callback_id", "partitioned", "op_id")
_LOG_MODES = ("default", "fusion_debugger")


def debug_field_of(name: str, token: Any) -> tuple[str, str]:
    """Return a debug attribute and its text, which is empty for its default.

    Raises:
        BadValue: an unknown name, or a value of another kind.
    """
    if name not in _DEBUG_FIELDS:
        raise BadValue(f"unknown debug attribute {name}{did_you_mean(name, _DEBUG_FIELDS)}")
    if name == "log_mode" and token not in _LOG_MODES:
        raise BadValue(f"log_mode is {' or '.join(_LOG_MODES)}, not {token}")
    if name == "partitioned" and token not in ("true", "false"):
        raise BadValue(f"partitioned is true or false, not {token}")
    if name in ("callback_id", "op_id"):
        if token.type != "INT":
            raise BadValue(f"{name} takes an integer, not {token}")
        return name, f"{name}={number}" if (number := int_of(token)) else ""
    return name, "" if token == "false" else f"{name}={token}"


def alias_of(
    index: tuple[int, ...], parameter: int, parameter_index: tuple[int, ...], kind: str = ""
) -> Alias:
    """Return one entry of input_output_alias; BadValue for a wrong kind or a negative number."""
    if kind not in ("", "may-alias", "must-alias"):
        raise BadValue(f"an alias is may-alias or must-alias, not {kind}")
    if min((parameter, *index, *parameter_index)) < 0:
        raise BadValue("an alias has a negative number")
    return Alias(index, parameter, parameter_index, kind == "must-alias")


METADATA_TYPES: dict[str, type] = {
    "op_type": str, "op_name": str, "source_file": str, "source_line": int,
    "source_end_line": int, "source_column": int, "source_end_column": int,
    "profile_type": tuple, "deduplicated_name": str, "scheduling_name": str,
    "stack_frame_id": int, "metadata_payload": str,
}  # fmt: skip
_TYPE_WORDS = {str: "a string", int: "an integer", tuple: "a list of integers"}
