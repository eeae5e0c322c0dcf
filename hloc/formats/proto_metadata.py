"""Conversion of `OpMetadata` and payloads to metadata and back."""

from __future__ import annotations

from typing import Any

from hloc.formats.faults import BadMessage, bytes_of, text_of
from hloc.ir.attributes import Metadata

_TEXTS = (
    "op_type", "op_name", "source_file", "deduplicated_name", "scheduling_name",
)  # fmt: skip
_NUMBERS = (
    "source_line", "source_end_line", "source_column", "source_end_column", "stack_frame_id",
)  # fmt: skip
_EMPTY = Metadata()


def metadata_of(proto: Any, payloads: tuple[bytes, ...]) -> Metadata:
    """Return the metadata that an `OpMetadata` describes."""
    found: dict[str, Any] = {}
    for field, value in proto.ListFields():
        name = field.name
        if name in _NUMBERS:
            found[name] = value
        elif name in _TEXTS:
            found[name] = text_of(value)
        elif name == "profile_type":
            found[name] = tuple(value)
        elif name == "metadata_payload":
            found[name] = text_of(payload_of(value, payloads))
    return Metadata(**found)


def optional_metadata(proto: Any, payloads: tuple[bytes, ...]) -> Metadata | None:
    """Return the metadata of an instruction, None if it is empty."""
    found = metadata_of(proto, payloads)
    return None if found == _EMPTY else found


def fill_metadata(proto: Any, metadata: Metadata) -> None:
    """Fill an empty `OpMetadata` with `metadata`."""
    for name in _TEXTS:
        setattr(proto, name, bytes_of(getattr(metadata, name)))
    for name in _NUMBERS:
        setattr(proto, name, getattr(metadata, name))
    proto.profile_type.extend(metadata.profile_type)
    if metadata.metadata_payload:
        proto.metadata_payload.value = bytes_of(metadata.metadata_payload)


def payload_of(proto: Any, payloads: tuple[bytes, ...]) -> bytes:
    """Return the contents of a `Payload`, which may refer to the module's payloads by number."""
    if not proto.HasField("id"):
        return bytes(proto.value)
    number: int = proto.id
    if not 0 <= number < len(payloads):
        raise BadMessage(f"the module has no payload number {number}")
    return payloads[number]
