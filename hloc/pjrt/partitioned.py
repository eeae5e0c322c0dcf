"""Programs of several devices: the whole program runs once, and arrays are cut at its edges.

JAX hands over the global program with shardings on its parameters and results. Arguments are
gathered from their shards, and results are cut into shards; a result without a sharding is
replicated, which JAX then sees in `spmd_output_sharding` of the module.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from hloc.formats.runtime import message_class
from hloc.pjrt.boundary import Boundary, Leaf, message_field
from hloc.pjrt.element_types import TOKEN, dtypes
from hloc.pjrt.native import PjrtError

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Part: TypeAlias = tuple[slice, ...]

_OUTPUT_SHARDING, _PARAMETER_SHARDINGS = 12, 14  # of HloModuleProto
_MANUAL = b"xla.sdy.GlobalToLocalShape"


@dataclass(frozen=True, slots=True)
class Shards:
    """How the leaves of a program lie on its devices.

    Attributes:
        parameters, results: per leaf and device the part that lies there; empty for tokens.
        shardings: fields for the HloModuleProto that tell JAX.
    """

    parameters: tuple[tuple[Part, ...], ...]
    results: tuple[tuple[Part, ...], ...]
    shardings: bytes

    def local(self, boundary: Boundary) -> tuple[Leaf, ...]:
        """Return the results as each device has them."""
        return tuple(
            Leaf(leaf.type, tuple(s.stop - s.start for s in parts[0])) if parts else leaf
            for leaf, parts in zip(boundary.results, self.results, strict=True)
        )


def shards_of(proto: bytes, boundary: Boundary, devices: int) -> Shards:
    """Return how the leaves of a serialized HloModuleProto lie on `devices` devices.

    Raises:
        PjrtError: parts of the program are written for one device each.
    """
    if _MANUAL in proto:
        raise PjrtError(
            "UNIMPLEMENTED",
            "hloc runs a program of several devices as one; shard_map and pmap over more than "
            "one device need a partitioner, which hloc does not have yet",
        )
    taken, given = _entry_shardings(proto)
    parameters = tuple(
        _parts(taken.get(i, b""), leaf, devices) for i, leaf in enumerate(boundary.parameters)
    )
    given += [b""] * (len(boundary.results) - len(given))
    results = tuple(
        _parts(sharding, leaf, devices)
        for sharding, leaf in zip(given, boundary.results, strict=True)
    )
    fields = [message_field(_OUTPUT_SHARDING, _output_sharding(given))]
    for i in range(len(boundary.parameters)):
        fields.append(message_field(_PARAMETER_SHARDINGS, taken.get(i, b"")))
    return Shards(parameters, results, b"".join(fields))


def _entry_shardings(proto: bytes) -> tuple[dict[int, bytes], list[bytes]]:
    """Return the OpShardings of parameters by number, and of results; empty means replicated."""
    module = message_class("HloModuleProto").FromString(proto)
    entry = next(c for c in module.computations if c.id == module.entry_computation_id)
    by_id = {inst.id: inst for inst in entry.instructions}
    parameters = {
        inst.parameter_number: inst.sharding.SerializeToString()
        for inst in entry.instructions
        if inst.opcode == b"parameter"
    }
    root = by_id[entry.root_id]
    if root.sharding.tuple_shardings:
        return parameters, [s.SerializeToString() for s in root.sharding.tuple_shardings]
    results = [by_id[i] for i in root.operand_ids] if root.opcode == b"tuple" else [root]
    return parameters, [inst.sharding.SerializeToString() for inst in results]


def _output_sharding(given: Sequence[bytes]) -> bytes:
    from jax._src.lib import xla_client

    if len(given) == 1:
        return given[0]
    parts = []
    for data in given:
        part = xla_client.OpSharding()
        part.ParseFromString(data)
        parts.append(part)
    whole = xla_client.OpSharding()
    whole.type = xla_client.OpSharding.Type.TUPLE
    whole.tuple_shardings = parts
    result: bytes = whole.SerializeToString()
    return result


def _parts(data: bytes, leaf: Leaf, devices: int) -> tuple[Part, ...]:
    """Return the part of an array that each device has, by its number in the assignment."""
    if leaf.type == TOKEN:
        return ()
    whole = tuple(slice(0, dim) for dim in leaf.dims)
    if not data:
        return (whole,) * devices
    from jax._src.lib import xla_client

    message = xla_client.OpSharding()
    message.ParseFromString(data)
    sharding = xla_client.HloSharding.from_proto(message)
    if not sharding.is_tiled():
        return (whole,) * devices
    tiles = sharding.tile_assignment_dimensions()
    result = [whole] * devices
    for index, device in enumerate(sharding.tile_assignment_devices()):
        place = np.unravel_index(index, tiles)[: len(leaf.dims)]
        result[device] = tuple(
            slice(*_cut(dim, int(count), int(i)))
            for dim, count, i in zip(leaf.dims, tiles, place, strict=False)
        )
    return tuple(result)


def _cut(dim: int, count: int, index: int) -> tuple[int, int]:
    size = -(-dim // count)
    return min(index * size, dim), min((index + 1) * size, dim)


# ---------------------------------------------------------------- runs


def gathered(leaf: Leaf, parts: Sequence[Part], shards: Sequence[Array]) -> Array:
    """Return the global array of its shards, which is the first one if that is all of it."""
    if shards[0].shape == leaf.dims:
        return shards[0]
    whole = np.empty(leaf.dims, dtypes()[leaf.type].numpy)
    for part, shard in zip(parts, shards, strict=True):
        whole[part] = shard
    return whole


def cut(results: Sequence[Array | None], shards: Shards, device: int) -> Iterator[Array | None]:
    """Yield the part of each result that a device has; None for tokens."""
    for result, parts in zip(results, shards.results, strict=True):
        yield None if result is None else result[parts[device]]
