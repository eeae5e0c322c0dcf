"""Classes for the messages of `proto_messages`, created on demand by the protobuf runtime."""

from __future__ import annotations

from functools import cache
from typing import Any

from hloc.errors import HloError
from hloc.formats.proto_messages import SCALARS, messages

_PACKAGE = "hloc.xla"
_TYPE_NUMBERS = {
    "double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "bool": 8, "bytes": 12,
    "uint32": 13,
}  # fmt: skip
_TYPE_MESSAGE = 11
_OPTIONAL, _REPEATED = 1, 3


def message_class(name: str) -> Any:
    """Return the class of message `name`.

    Raises:
        HloError: protobuf is not installed.
    """
    return _classes()[name]


@cache
def _classes() -> dict[str, Any]:
    """Return the class of each message by name.

    The descriptor is made from the table at run time: no generated code, no `protoc`. Fields with
    presence are one-field oneofs, as proto3 encodes `optional`.
    """
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError:
        raise HloError(
            "this is a protocol buffer, which hloc reads and writes with the protobuf package",
            notes=("pip install 'hloc[proto]'",),
        ) from None
    file = descriptor_pb2.FileDescriptorProto(
        name="hloc/xla.proto", package=_PACKAGE, syntax="proto3"
    )
    for name, rows in messages().items():
        message = file.message_type.add(name=name)
        for row in rows.values():
            field = message.field.add(
                name=row.name, number=row.number, label=_REPEATED if row.repeated else _OPTIONAL
            )
            if row.type in SCALARS:
                field.type = _TYPE_NUMBERS[row.type]
            else:
                field.type, field.type_name = _TYPE_MESSAGE, f".{_PACKAGE}.{row.type}"
            if row.optional:
                field.proto3_optional = True
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{row.name}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for name in messages()
    }
