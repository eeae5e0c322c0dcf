"""Conversion of `HloProto` and `HloSnapshot` to snapshots and back."""

from __future__ import annotations

from typing import Any

from hloc.errors import HloError
from hloc.formats.faults import BadMessage
from hloc.formats.from_proto import module_from_bytes, module_from_proto, parsed
from hloc.formats.proto_literals import literal_of_proto
from hloc.formats.runtime import message_class
from hloc.formats.snapshot import Snapshot
from hloc.formats.sniff import HLO, MODULE, SNAPSHOT
from hloc.formats.to_proto import module_to_proto
from hloc.ir.module import Module
from hloc.literal import Literal


def snapshot_from_bytes(data: bytes, kind: str, name: str) -> Snapshot:
    """Return the contents of a protocol buffer of `kind`; the module is not yet verified.

    Raises:
        HloError: the bytes are damaged or do not describe a module; protobuf is not installed.
    """
    if kind == MODULE:
        return Snapshot(module_from_bytes(data, name))
    if kind == HLO:
        return Snapshot(module_from_proto(parsed(data, HLO, name).hlo_module, name))
    proto = parsed(data, SNAPSHOT, name)
    module = module_from_proto(proto.hlo.hlo_module, name)
    arguments = []
    for number, argument in enumerate(proto.arguments):
        arguments.append(_literal(argument, f"{name}: arguments[{number}]"))
    result = _literal(proto.result, f"{name}: result") if proto.HasField("result") else None
    return Snapshot(module, tuple(arguments), result)


def _literal(proto: Any, place: str) -> Literal:
    try:
        return literal_of_proto(proto)
    except BadMessage as fault:
        raise HloError(f"{place}: {fault}") from None


def hlo_proto_bytes(module: Module) -> bytes:
    """Return `module` as a serialized `HloProto`; errors as for `module_to_bytes`."""
    proto = message_class(HLO)()
    proto.hlo_module.CopyFrom(module_to_proto(module))
    data: bytes = proto.SerializeToString(deterministic=True)
    return data
