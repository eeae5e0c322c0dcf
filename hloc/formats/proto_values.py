"""Small values of XLA's messages, checked as in the parser.

Invalid values raise `BadMessage`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from hloc.formats.faults import BadMessage, text_of
from hloc.formats.proto_literals import literal_of_proto
from hloc.ir.attribute_fields import AttributeField
from hloc.ir.attributes import FileLocation, StackFrame, StackFrames
from hloc.ir.opcode import Opcode
from hloc.literal import Literal
from hloc.parser.attributes import string_or_json
from hloc.shapes import ArrayShape, Shape, TupleShape, leaves

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*")
_KEY = re.compile(r"[A-Za-z0-9_.\-]+")


def as_name(data: bytes) -> str:
    """Return a name with `_` for invalid characters."""
    name = re.sub(r"[^A-Za-z0-9_.\-]", "_", text_of(data))
    return name if not name or _NAME.fullmatch(name) else "_" + name


def check_choice(row: Opcode, field: AttributeField, value: Any) -> None:
    """Raise BadMessage if an attribute has a value that is not in its row."""
    if field.kind == "enum" and field.choices and value not in (*field.choices, field.default):
        raise BadMessage(
            f"attribute {field.name} of {row.name} is one of {', '.join(field.choices)}, not "
            f"{str(value)[:80]!r}"
        )


def constant_of(proto: Any, shape: Shape) -> Literal:
    """Return the value of a constant; without a literal its values are elided."""
    if not isinstance(shape, ArrayShape | TupleShape):
        raise BadMessage(f"a constant of shape {shape} is not possible")
    if not proto.HasField("literal"):
        return Literal(shape, None)
    literal = literal_of_proto(proto.literal)
    if literal.shape.text_without_layout != shape.text_without_layout:
        raise BadMessage(f"the literal has shape {literal.shape}, but the constant {shape}")
    return literal


def replication_of(row: Opcode, proto: Any, shape: Shape) -> tuple[bool, ...]:
    """Return `parameter_replication`: a flag for each leaf of the shape, or none."""
    flags = tuple(proto.parameter_replication.replicated_at_leaf_buffers)
    if flags and row.name != "parameter":
        raise BadMessage("only a parameter has parameter_replication")
    count = sum(1 for _ in leaves(shape))
    if flags and len(flags) != count:
        raise BadMessage(
            f"parameter_replication has {len(flags)} entries, but the shape has {count} leaves"
        )
    return flags


def frontend_pairs(proto: Any) -> tuple[tuple[str, str], ...]:
    """Return sorted pairs of key and printed value; the last of equal keys counts."""
    pairs = {text_of(entry.key): text_of(entry.value) for entry in proto.map}
    for key in pairs:
        if not _KEY.fullmatch(key):
            raise BadMessage(f"a frontend attribute cannot be called {key[:80]!r}")
    return tuple(sorted((key, string_or_json(value)) for key, value in pairs.items()))


def index_of(values: Sequence[int]) -> tuple[int, ...]:
    """Return an index into a shape."""
    found = tuple(values)
    if min(found, default=0) < 0:
        raise BadMessage(f"an index into a shape has the negative entry {min(found)}")
    return found


def check_index(shape: Shape, index: tuple[int, ...]) -> None:
    """Raise BadMessage if the result has no part with this index."""
    inner = shape
    for i in index:
        if not isinstance(inner, TupleShape) or i >= len(inner.elements):
            raise BadMessage(f"input_output_alias: the result {shape} has no index {index}")
        inner = inner.elements[i]


def stack_frames_of(proto: Any) -> StackFrames:
    """Return the tables; the parent of a frame counts from 1 in the text, with 1 for none."""
    return StackFrames(
        tuple(text_of(name) for name in proto.file_names),
        tuple(text_of(name) for name in proto.function_names),
        tuple(
            FileLocation(
                place.file_name_id, place.function_name_id, place.line, place.end_line,
                place.column, place.end_column,
            )
            for place in proto.file_locations
        ),
        tuple(
            StackFrame(frame.file_location_id, frame.parent_frame_id + 1)
            for frame in proto.stack_frames
        ),
    )  # fmt: skip
