"""Programs of several devices: shardings of parameters and results, and their runs.

JAX passes the global program with shardings on its parameters and results. It is partitioned, and
every device runs it on its shards. A program that cannot be partitioned runs once, as a whole:
arguments are gathered from their shards, and results are split into shards; a result without a
sharding is replicated. JAX reads the shardings of results from `spmd_output_sharding` of the
module.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from hloc import driver
from hloc.dtypes import Array
from hloc.errors import HloError
from hloc.formats.proto_devices import fill_sharding
from hloc.formats.runtime import message_class
from hloc.ir.module import Module
from hloc.ir.sharded_signature import ShardedArray, sharded_signature
from hloc.ir.traversal import all_instructions
from hloc.lazy_dataclass import dataclass
from hloc.pjrt.boundary import Boundary, Leaf, message_field
from hloc.pjrt.element_types import TOKEN, dtypes
from hloc.pjrt.native import PjrtError

Part: TypeAlias = tuple[slice, ...]

_OUTPUT_SHARDING, _PARAMETER_SHARDINGS = 12, 14  # of HloModuleProto
_MANUAL = (
    b"xla.sdy.GlobalToLocalShape",
    b"xla.sdy.LocalToGlobalShape",
    b"SPMDFullToShardShape",
    b"SPMDShardToFullShape",
)
"""Custom calls into and out of manually partitioned regions."""

_UNREDUCED = b"unreduced"
"""In shardings of partial sums; such programs run as a whole."""

_ABOUT_SHARDING = ("Sharding", "SPMD", "ShardBarrier", "xla.sdy.", "LayoutConstraint")
"""Prefixes of custom calls that compute nothing."""


@dataclass(frozen=True, slots=True)
class Shards:
    """The sharding of a program's leaves.

    Attributes:
        parameters, results: the part of each leaf on each device; empty for tokens.
        shardings: fields of the HloModuleProto for JAX.
        is_partitioned: every device runs the program on its shards.
    """

    parameters: tuple[tuple[Part, ...], ...]
    results: tuple[tuple[Part, ...], ...]
    shardings: bytes
    is_partitioned: bool = False

    def local(self, boundary: Boundary) -> tuple[Leaf, ...]:
        """Return the results of one device."""
        return tuple(
            Leaf(leaf.type, tuple(s.stop - s.start for s in parts[0])) if parts else leaf
            for leaf, parts in zip(boundary.results, self.results, strict=True)
        )


def partitioned(
    proto: bytes, global_proto: bytes, boundary: Boundary, devices: int
) -> tuple[Module, Shards] | None:
    """Return the partitioned program for `devices` devices, None for one that runs as a whole.

    Those are programs without a sharding, programs that call host functions, which are called once,
    programs that the partitioner rejects, and those with uneven shards of results, which JAX does
    not support.

    Args:
        proto: the global program, after the user's passes.
        global_proto: the global program before them.
        boundary: of the global program.
        devices: their number.

    Raises:
        HloError: it has manually partitioned regions, so it cannot run as a whole either.
    """
    is_manual = any(target in proto for target in _MANUAL)
    if not is_manual and _UNREDUCED in proto:
        return None
    module = driver.read_snapshot(proto, name=boundary.name).module
    if not is_manual and (_calls_host(module) or not _is_sharded(module)):
        return None
    module.set_config(replace(module.config, num_partitions=devices))
    try:
        module = driver.partition(module)
        shards = partitioned_shards(module, global_proto, boundary)
    except (HloError, PjrtError):
        if is_manual:
            raise
        return None
    if is_manual or all(_is_even(parts) for parts in shards.results):
        return module, shards
    return None


def _is_even(parts: Sequence[Part]) -> bool:
    """True if all parts have one size, as JAX requires."""
    return len({tuple(s.stop - s.start for s in part) for part in parts}) <= 1


def _calls_host(module: Module) -> bool:
    """True if a custom call may run a function of the user or of a library."""
    return any(
        inst.is_a("custom-call")
        and not inst.attributes.custom_call_target.startswith(_ABOUT_SHARDING)
        for inst in all_instructions(module)
    )


def _is_sharded(module: Module) -> bool:
    """True if an instruction is to be cut into tiles."""
    for inst in all_instructions(module):
        sharding = inst.common.sharding
        if sharding is not None and any(
            leaf.kind in ("tiled", "named") for leaf in sharding.for_leaves(1).elements
        ):
            return True
    return False


def partitioned_shards(module: Module, proto: bytes, boundary: Boundary) -> Shards:
    """Return the sharding of a program's leaves, given the partitioned program.

    Args:
        module: the partitioned program.
        proto: the global program.
        boundary: of the global program.

    Raises:
        PjrtError: the parts of a result do not form a whole array.
    """
    signature = sharded_signature(module)
    devices = signature.devices.total
    taken, _ = _entry_shardings(proto)
    pairs = ((signature.parameters, boundary.parameters), (signature.results, boundary.results))
    parameters, results = (_side(found, expected, devices) for found, expected in pairs)
    root = module.entry.root.common.sharding
    assert root is not None  # the partitioner writes it
    output = message_class("OpSharding")()
    fill_sharding(output, root)
    fields = [message_field(_OUTPUT_SHARDING, output.SerializeToString())]
    for i in range(len(boundary.parameters)):
        fields.append(message_field(_PARAMETER_SHARDINGS, taken.get(i, b"")))
    return Shards(parameters, results, b"".join(fields), is_partitioned=True)


def _side(
    found: Sequence[ShardedArray], expected: Sequence[Leaf], devices: int
) -> tuple[tuple[Part, ...], ...]:
    """Return the parts of each leaf; the signature omits tokens."""
    rest = iter(found)
    return tuple(
        () if leaf.type == TOKEN else _leaf_parts(next(rest), devices) for leaf in expected
    )


def _leaf_parts(sharded: ShardedArray, devices: int) -> tuple[Part, ...]:
    dims, placement = sharded.whole.dims, sharded.placement
    parts = [None if placement is None else placement.part(dims, i) for i in range(devices)]
    if None in parts:
        shape = sharded.whole.text_without_layout
        raise PjrtError(
            "UNIMPLEMENTED", f"hloc does not support {shape} whose parts do not form a whole array"
        )
    return tuple(part for part in parts if part is not None)


def shards_of(proto: bytes, boundary: Boundary, devices: int) -> Shards:
    """Return the sharding of the leaves of a serialized HloModuleProto on `devices` devices."""
    taken, given = _entry_shardings(proto)
    parameters = tuple(
        _parts(taken.get(i, b""), leaf, devices) for i, leaf in enumerate(boundary.parameters)
    )
    given += [b""] * (len(boundary.results) - len(given))
    for i, leaf in enumerate(boundary.results):
        if not _is_even(_parts(given[i], leaf, devices)):
            given[i] = b""  # XLA replicates such results, too
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
    """Return the part of an array on each device, by its number in the assignment."""
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
    """Return the global array of its shards: the first one if that is the whole array."""
    if shards[0].shape == leaf.dims:
        return shards[0]
    whole = np.empty(leaf.dims, dtypes()[leaf.type].numpy)
    for part, shard in zip(parts, shards, strict=True):
        whole[part] = shard
    return whole


def cut(results: Sequence[Array | None], shards: Shards, device: int) -> Iterator[Array | None]:
    """Yield the shard of each result on a device; None for tokens."""
    for result, parts in zip(results, shards.results, strict=True):
        yield None if result is None else result[parts[device]]
