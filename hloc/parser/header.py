"""The `HloModule` line and the stack-frame tables to `ModuleConfig` and `StackFrames`."""

from __future__ import annotations

import re
from typing import Any

from hloc.errors import HloError
from hloc.ir.attributes import (
    FileLocation,
    ModuleConfig,
    StackFrame,
    StackFrames,
)
from hloc.near_names import did_you_mean
from hloc.parser.ast import AttributeAst, ModuleAst, Piece
from hloc.parser.attributes import AttributeReader
from hloc.parser.scanner import COMMENT, STRING, TABLE_NAMES, fault, raw_text
from hloc.parser.strings import unquote
from hloc.source import SourceFile

_FIELD_OF = {
    "is_scheduled": "is_scheduled",
    "input_output_alias": "aliases",
    "buffer_donor": "buffer_donors",
    "alias_passthrough_params": "alias_passthrough_params",
    "entry_computation_layout": "entry_layout",
    "allow_spmd_sharding_propagation_to_parameters": "propagate_sharding_to_parameters",
    "allow_spmd_sharding_propagation_to_output": "propagate_sharding_to_output",
    "replica_count": "replica_count",
    "num_partitions": "num_partitions",
    "frontend_attributes": "frontend_attributes",
    "origin_recovery_table": "origin_recovery_table",
    "debug_attributes": "debug_attributes",
}
_RULE_OF = {
    "input_output_alias": "input_output_alias",
    "buffer_donor": "buffer_donor",
    "debug_attributes": "debug_attributes",
    "entry_computation_layout": "entry_computation_layout",
    "allow_spmd_sharding_propagation_to_parameters": "propagation",
    "allow_spmd_sharding_propagation_to_output": "propagation",
}
HEADER_ATTRIBUTES = frozenset(_FIELD_OF)
"""The attributes that a `HloModule` line may have."""

_BOOLS = ("is_scheduled", "alias_passthrough_params")


def module_config(tree: ModuleAst, reader: AttributeReader, faults: list[HloError]) -> ModuleConfig:
    """Return the configuration; invalid attributes go to `faults` and keep their default."""
    found: dict[str, Any] = {}
    for attribute in tree.attributes:
        try:
            if attribute.key not in _FIELD_OF:
                hint = did_you_mean(attribute.key, _FIELD_OF)
                raise _fault(
                    reader.source, tree, attribute,
                    f"unexpected attribute {attribute.key} of the module{hint}", "HLOC0202",
                )  # fmt: skip
            field = _FIELD_OF[attribute.key]
            if field in found:
                raise _fault(
                    reader.source, tree, attribute,
                    f"attribute {attribute.key} already exists", "HLOC0203",
                )  # fmt: skip
            found[field] = _value(attribute, tree, reader)
        except HloError as error:
            faults.append(error)
    if "aliases" in found:
        found["aliases"] = tuple({a.output_index: a for a in reversed(found["aliases"])}.values())
    return ModuleConfig(**found)


def _fault(
    source: SourceFile, tree: ModuleAst, attribute: AttributeAst, message: str, code: str
) -> HloError:
    start = tree.attributes_at + attribute.at
    return fault(source, start, start + len(attribute.key), message, code)


def _value(attribute: AttributeAst, tree: ModuleAst, reader: AttributeReader) -> Any:
    name, text = attribute.key, attribute.value
    at = tree.attributes_at + attribute.value_at
    if name in _RULE_OF:
        return reader.values.read(_RULE_OF[name], text, at)
    if name in _BOOLS and text in ("true", "false"):
        return text == "true"
    if name in ("replica_count", "num_partitions") and re.fullmatch(r"[0-9]{1,18}", text):
        return int(text)
    if name == "frontend_attributes":
        return reader.frontend_attributes(text, at)
    if name == "origin_recovery_table":
        return raw_text(reader.source, text, at)
    raise _fault(
        reader.source, tree, attribute, f"attribute {name} cannot be {text[:40]}", "HLOC0205"
    )


# ---------------------------------------------------------------- stack-frame tables

_TABLE_PIECE = re.compile(
    rf"{COMMENT}|({'|'.join(TABLE_NAMES)})\b"
    rf"|([0-9]++)|({STRING.pattern})|(\{{[^{{}}]*+\}})"
)
_TABLE_FIELD = re.compile(r"([A-Za-z_]\w*)\s*=\s*(-?[0-9]{1,18})\b")
_LOCATION_FIELDS = (
    "file_name_id", "function_name_id", "line", "end_line", "column", "end_column",
)  # fmt: skip
_FRAME_FIELDS = ("file_location_id", "parent_frame_id")


def stack_frames(source: SourceFile, piece: Piece | None) -> StackFrames:
    """Return the four tables; HloError if one is missing or an entry lacks a field."""
    if piece is None:
        return StackFrames()
    entries: dict[str, list[Any]] = {name: [] for name in TABLE_NAMES}
    started: list[str] = []
    for found in _TABLE_PIECE.finditer(piece.text):
        at = piece.at + found.start()
        table, _number, string, record = found.groups()
        if table:
            if len(started) == 4 or table != TABLE_NAMES[len(started)]:
                wanted = TABLE_NAMES[len(started)] if len(started) < 4 else "a computation"
                raise fault(
                    source, at, at + len(table), f"expected {wanted} but found {table}", "HLOC0101"
                )
            started.append(table)
        elif string or record:
            entries[started[-1]].append(_entry(source, at, started[-1], string, record))
    if len(started) < 4:
        end = piece.end
        raise fault(source, end - 1, end, f"expected {TABLE_NAMES[len(started)]}", "HLOC0101")
    return StackFrames(*(tuple(entries[name]) for name in TABLE_NAMES))


def _entry(source: SourceFile, at: int, table: str, string: str | None, record: str | None) -> Any:
    if table in ("FileNames", "FunctionNames"):
        if string is None:
            raise fault(source, at, at + 1, f"an entry of {table} is a string", "HLOC0101")
        try:
            return unquote(string)
        except ValueError as error:
            raise fault(source, at, at + len(string), str(error), "HLOC0101") from None
    names = _LOCATION_FIELDS if table == "FileLocations" else _FRAME_FIELDS
    values = dict(_TABLE_FIELD.findall(record or ""))
    if set(values) != set(names):
        wanted = ", ".join(names)
        raise fault(source, at, at + 1, f"an entry of {table} has {wanted}", "HLOC0101")
    numbers = [int(values[name]) for name in names]
    return FileLocation(*numbers) if table == "FileLocations" else StackFrame(*numbers)
