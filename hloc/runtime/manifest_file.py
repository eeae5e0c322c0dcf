"""A program as bytes and back: the manifest as JSON, then machine code and raw constants.

Reading runs no code: the contents become numbers, names and arrays, or are rejected.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from hloc.codegen.lower.hidden_sizes import DynamicBoundary, HiddenSize
from hloc.codegen.plan.exchange import Combiner, Exchange, Pieces
from hloc.codegen.plan.pointer_table import TableLayout
from hloc.dtypes import DTYPES, dtype_of_numpy
from hloc.lazy_dataclass import dataclass
from hloc.memory.aligned_array import aligned_copy
from hloc.memory.allocation import AliasedOutput, BufferReport, NamedLeaf
from hloc.runtime.manifest import ProgramManifest
from hloc.shapes import ArrayShape, Layout

_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class Program:
    """A module ready to be loaded.

    Attributes:
        objects: machine code; they refer to each other.
        note: data of the caller that is stored with it.
    """

    manifest: ProgramManifest
    objects: tuple[bytes, ...]
    note: str = ""


def program_bytes(program: Program) -> bytes | None:
    """Return `program` as bytes, None if it has a layout or a type that cannot be encoded."""
    manifest = program.manifest
    shapes = [leaf.shape for leaf in manifest.parameters] + list(manifest.outputs)
    types = [dtype_of_numpy(constant.dtype) for constant in manifest.constants]
    if None in types or any(s.layout is not None and s.layout.has_attributes for s in shapes):
        return None
    head = {
        "parameters": [[leaf.name, _shape_fields(leaf.shape)] for leaf in manifest.parameters],
        "outputs": [_shape_fields(shape) for shape in manifest.outputs],
        "constants": [
            [str(dtype), constant.shape]
            for dtype, constant in zip(types, manifest.constants, strict=True)
        ],
        "table": _fields(manifest.table),
        "arena_bytes": manifest.arena_bytes,
        "report": _fields(manifest.report),
        "boundary": {
            side: [_fields(size) for size in sizes]
            for side, sizes in _fields(manifest.boundary).items()
        },
        "is_split": manifest.is_split,
        "worker_bytes": manifest.worker_bytes,
        "replicas": manifest.replicas,
        "partitions": manifest.partitions,
        "tells_devices": manifest.tells_devices,
        "exchanges": [_exchange_fields(exchange) for exchange in manifest.exchanges],
        "aliases": [_fields(alias) for alias in manifest.aliases],
        "loop_matrices": manifest.loop_matrices,
        "objects": [len(data) for data in program.objects],
        "note": program.note,
    }
    text = json.dumps(head).encode()
    blocks = [*program.objects, *(constant.tobytes() for constant in manifest.constants)]
    return b"".join([_LENGTH.pack(len(text)), text, *blocks])


def read_program(data: bytes) -> Program:
    """Return the program that `program_bytes` wrote.

    Raises:
        ValueError, KeyError, TypeError, struct.error: the bytes are something else.
    """
    (length,) = _LENGTH.unpack_from(data)
    at = _LENGTH.size + length
    head = json.loads(data[_LENGTH.size : at])
    objects = []
    for size in head["objects"]:
        objects.append(data[at : at + size])
        at += size
    constants = []
    for name, dims in head["constants"]:
        numpy, count = DTYPES[name].numpy, math.prod(dims)
        constants.append(aligned_copy(np.frombuffer(data, numpy, count, at).reshape(dims)))
        at += count * numpy.itemsize
    if at != len(data):
        raise ValueError(f"{len(data)} bytes where {at} were announced")
    manifest = ProgramManifest(
        parameters=tuple(NamedLeaf(name, _shape(fields)) for name, fields in head["parameters"]),
        outputs=tuple(map(_shape, head["outputs"])),
        constants=tuple(constants),
        table=TableLayout(**head["table"]),
        arena_bytes=head["arena_bytes"],
        report=BufferReport(**head["report"]),
        boundary=DynamicBoundary(**{k: _sizes(v) for k, v in head["boundary"].items()}),
        aliases=tuple(AliasedOutput(**fields) for fields in head["aliases"]),
        loop_matrices=tuple((slot, size) for slot, size in head["loop_matrices"]),
        is_split=head["is_split"],
        worker_bytes=head["worker_bytes"],
        replicas=head["replicas"],
        partitions=head["partitions"],
        tells_devices=head["tells_devices"],
        exchanges=tuple(_exchange(fields) for fields in head["exchanges"]),
    )
    return Program(manifest, tuple(objects), str(head["note"]))


def _fields(record: Any) -> dict[str, Any]:
    """Return the fields of a dataclass with slots, without the deep copies of `asdict`."""
    return {name: getattr(record, name) for name in record.__slots__}


def _exchange_fields(exchange: Exchange) -> dict[str, Any]:
    fields = _fields(exchange)
    for name in ("operands", "results", "combiners"):
        fields[name] = [list(_fields(part).values()) for part in fields[name]]
    return fields


def _exchange(fields: dict[str, Any]) -> Exchange:
    return Exchange(
        opcode=fields["opcode"],
        name=fields["name"],
        place=fields["place"],
        groups=tuple(map(tuple, fields["groups"])),
        channel=fields["channel"],
        meaning=fields["meaning"],
        pairs=tuple((source, target) for source, target in fields["pairs"]),
        operands=tuple(Pieces(*part) for part in fields["operands"]),
        results=tuple(Pieces(*part) for part in fields["results"]),
        reducer=fields["reducer"],
        combiners=tuple(Combiner(*part) for part in fields["combiners"]),
        may_diverge=fields["may_diverge"],
    )


def _shape_fields(shape: ArrayShape) -> list[Any]:
    order = None if shape.layout is None else shape.layout.minor_to_major
    return [shape.dtype.name, shape.dims, order, shape.dynamic]


def _shape(fields: Sequence[Any]) -> ArrayShape:
    name, dims, order, dynamic = fields
    layout = None if order is None else Layout(tuple(order))
    return ArrayShape(DTYPES[name], tuple(dims), layout, tuple(dynamic))


def _sizes(rows: Sequence[dict[str, int]]) -> tuple[HiddenSize, ...]:
    return tuple(HiddenSize(**row) for row in rows)
