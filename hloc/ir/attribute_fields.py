"""Declaring the attributes of a row with `attr`, and the text of each kind of value.

A row's attributes are a frozen dataclass; each field is made with `attr(kind, ...)`. The kind names
both the value's printer here (`KINDS`) and the grammar rule that reads it (`grammar/hlo.lark`).
Text forms: format reference, section 10.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, field
from functools import cache
from types import MappingProxyType
from typing import Any

from hloc.ir.attributes import Metadata, PaddingDimension, SliceDimension
from hloc.lazy_dataclass import dataclass

# ---------------------------------------------------------------- text forms


def int_list_text(values: tuple[int, ...]) -> str:
    """Return `{0,1}`."""
    return "{" + ",".join(map(str, values)) + "}"


def _slice_text(dims: tuple[SliceDimension, ...]) -> str:
    strides = any(d.stride != 1 for d in dims)
    texts = (
        f"[{d.start}:{d.limit}:{d.stride}]" if strides else f"[{d.start}:{d.limit}]" for d in dims
    )
    return "{" + ", ".join(texts) + "}"


def _padding_text(dims: tuple[PaddingDimension, ...]) -> str:
    interior = any(d.interior for d in dims)
    return "x".join(
        f"{d.low}_{d.high}_{d.interior}" if interior else f"{d.low}_{d.high}" for d in dims
    )


def quoted(text: str) -> str:
    """Return `text` in double quotes with C escapes; bytes beyond ASCII in octal, as XLA does."""
    if _PLAIN.fullmatch(text):
        return f'"{text}"'
    out = []
    for byte in text.encode("utf-8", "surrogateescape"):
        char = chr(byte)
        if char in _ESCAPES:
            out.append(_ESCAPES[char])
        elif 32 <= byte < 127:
            out.append(char)
        else:
            out.append(f"\\{byte:03o}")
    return '"' + "".join(out) + '"'


_PLAIN = re.compile(r"[ !#-&(-\[\]-~]*")
_ESCAPES = {'"': '\\"', "'": "\\'", "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def metadata_text(metadata: Metadata, frame: int) -> str:
    """Return the inside of `metadata={...}` with `frame` as stack_frame_id; "" if XLA omits it."""
    if not (
        metadata.op_name or frame or metadata.op_type or metadata.source_file
        or metadata.scheduling_name or metadata.metadata_payload
    ):  # fmt: skip
        return ""
    parts = []
    if metadata.op_type:
        parts.append("op_type=" + quoted(metadata.op_type))
    if metadata.op_name:
        parts.append("op_name=" + quoted(metadata.op_name))
    if metadata.source_file:
        parts.append("source_file=" + quoted(metadata.source_file))
    for name in ("source_line", "source_end_line", "source_column", "source_end_column"):
        if value := getattr(metadata, name):
            parts.append(f"{name}={value}")
    if metadata.profile_type:
        parts.append("profile_type=" + int_list_text(metadata.profile_type))
    if metadata.deduplicated_name:
        parts.append("deduplicated_name=" + quoted(metadata.deduplicated_name))
    if metadata.scheduling_name:
        parts.append("scheduling_name=" + quoted(metadata.scheduling_name))
    if frame:
        parts.append(f"stack_frame_id={frame}")
    if metadata.metadata_payload:
        parts.append("metadata_payload=" + quoted(metadata.metadata_payload))
    return " ".join(parts)


KINDS: dict[str, Callable[[Any], str]] = {
    "bool": lambda value: "true" if value else "false",
    "int": str,
    "float": lambda value: f"{value:.6g}",
    "int_list": int_list_text,
    "int_list_list": lambda lists: "{" + ",".join(int_list_text(values) for values in lists) + "}",
    "enum": str,
    "enum_list": lambda values: "{" + ",".join(values) + "}",
    "string": quoted,
    "shape": str,
    "shape_list": lambda shapes: "{" + ", ".join(map(str, shapes)) + "}",
    "window": str,
    "dim_labels": str,
    "slice": _slice_text,
    "padding": _padding_text,
    "replica_groups": str,
    "sharding": str,
    "raw": str,
}
"""Kind of attribute -> its text. The grammar has a rule of the same name for each."""

# ---------------------------------------------------------------- declaring attributes


@dataclass(frozen=True, slots=True)
class AttributeField:
    """One attribute of a row, as parser and printer see it.

    Attributes:
        name: spelling in the text, `lhs_contracting_dims`.
        field: name of the dataclass field.
        required: the text must have it.
        always: printed even when it has its default value.
        choices: legal values of an enum, () for others.
        fold_case: the enum is read in any case and kept in lower case.
    """

    name: str
    field: str
    kind: str
    default: Any
    required: bool
    always: bool
    choices: tuple[str, ...]
    fold_case: bool


def attr(
    kind: str,
    *,
    default: Any = MISSING,
    name: str = "",
    always: bool = False,
    choices: tuple[str, ...] = (),
    fold_case: bool = False,
) -> Any:
    """Declare an attribute of `kind`; without a default it is required and always printed.

    Fields are in print order. A field that is required must be keyword-only or come first:
    declare the dataclass with `kw_only=True`.
    """
    assert kind in KINDS, kind
    metadata: Mapping[str, Any] = MappingProxyType(
        {
            "kind": kind,
            "name": name,
            "always": always or default is MISSING,
            "choices": choices,
            "fold_case": fold_case,
        }
    )
    return field(default=default, metadata=metadata)


def attribute_fields(attributes: type[Any] | None) -> tuple[AttributeField, ...]:
    """Return the attributes that dataclass `attributes` declares, in print order."""
    key: Any = attributes
    return _attribute_fields(key)


@cache
def _attribute_fields(attributes: Any) -> tuple[AttributeField, ...]:
    if attributes is None:
        return ()
    return tuple(
        AttributeField(
            f.metadata["name"] or f.name,
            f.name,
            f.metadata["kind"],
            f.default,
            f.default is MISSING,
            f.metadata["always"],
            f.metadata["choices"],
            f.metadata["fold_case"],
        )
        for f in dataclasses.fields(attributes)
        if "kind" in f.metadata
    )
