"""The signature of a program for several devices: how its arguments and results are sharded.

A global program is written for whole arrays; a partitioner turns it into the program of
one device. A per-device program has the shapes of one device; XLA keeps the shardings of its
parameters, which are those of the whole arrays, and drops those of its results. hloc's partitioner
keeps both, and records in the header the sizes of whole arrays that are not divided evenly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from hloc.ir.axis_sharding import AxisSharding
from hloc.ir.axis_sharding_text import meshes_of, shardy_shardings
from hloc.ir.device_groups import DeviceCounts, check_total, exchanges_data, module_devices
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.placement import Dims, Placement, placement_of, replicated
from hloc.ir.sharding import LeafSharding, Sharding
from hloc.lazy_dataclass import dataclass
from hloc.shapes import ArrayShape, BufferShape, Shape, ShapeIndex, leaves

Leaf: TypeAlias = LeafSharding | AxisSharding

_SUFFIX = "_spmd"
"""Suffix of the entry computation of a partitioned module, XLA's and hloc's."""

_PARAMETER_DIMS, _RESULT_DIMS = "hloc.parameter_dims", "hloc.result_dims"

_REGION_TARGETS = frozenset(
    (
        "SPMDFullToShardShape",
        "SPMDShardToFullShape",
        "xla.sdy.GlobalToLocalShape",
        "xla.sdy.LocalToGlobalShape",
    )
)
"""Custom calls into and out of manual regions."""

_GLOBAL_TARGETS = _REGION_TARGETS | frozenset(
    ("Sharding", "xla.sdy.FuncResultSharding", "xla.sdy.ShardingConstraint")
)
"""Custom calls that a partitioner removes."""


@dataclass(frozen=True, slots=True)
class ShardedArray:
    """One array among the arguments or results.

    Attributes:
        whole: the shape of the whole array; that of one device if `placement` is None.
        local: the shape on one device.
        placement: its tiles by partition; None if the parts do not form a whole array.
    """

    whole: ArrayShape
    local: ArrayShape
    placement: Placement | None


@dataclass(frozen=True, slots=True)
class ShardedSignature:
    """The arguments and results of a program, leaf by leaf, without tokens."""

    devices: DeviceCounts
    is_per_device: bool
    parameters: tuple[ShardedArray, ...]
    results: tuple[ShardedArray, ...]


def sharded_signature(module: Module) -> ShardedSignature:
    """Return how the arguments and results of `module` are sharded.

    Raises:
        HloError: a sharding does not fit its array, or the number of partitions.
    """
    devices = module_devices(module)
    check_total(devices.total)
    local = is_per_device(module)
    shardings = [_parameter_shardings(module, p) for p in module.entry.parameters]
    parameters = _arrays(
        [p.shape for p in module.entry.parameters], shardings, devices, local,
        _header_dims(module, _PARAMETER_DIMS),
    )  # fmt: skip
    root = module.entry.root
    results = _arrays(
        [root.shape], [_result_shardings(module, root)], devices, local,
        _header_dims(module, _RESULT_DIMS),
    )  # fmt: skip
    return ShardedSignature(devices, local, parameters, results)


def has_manual_regions(module: Module) -> bool:
    """Tell whether a global program has manual regions."""
    return any(
        call.attributes.custom_call_target in _REGION_TARGETS for call in _custom_calls(module)
    )


def _custom_calls(module: Module) -> Iterator[Instruction]:
    return (i for c in module.computations for i in c.instructions if i.is_a("custom-call"))


def is_partitioned(module: Module) -> bool:
    """Tell whether a module was made by a partitioner, by the name of its entry computation."""
    name = module.entry.name.rstrip("0123456789.")
    return name.endswith(_SUFFIX) and module_devices(module).total > 1


def is_per_device(module: Module) -> bool:
    """Tell whether the shapes of `module` are those of one device.

    A program with annotations for a partitioner is global; one that a compiler has
    scheduled, or that has collectives outside of a manual region, is not.
    """
    if module_devices(module).total == 1:
        return False
    if is_partitioned(module):
        return True
    if "xla.sdy.meshes" in dict(module.config.frontend_attributes):
        return False
    targets = (call.attributes.custom_call_target for call in _custom_calls(module))
    if not _GLOBAL_TARGETS.isdisjoint(targets):
        return False
    return module.config.is_scheduled or exchanges_data(module)


def whole_sizes(parameters: Sequence[Dims], results: Sequence[Dims]) -> dict[str, str]:
    """Return header attributes for the sizes of whole arrays, which tiles may not divide."""
    return {
        key: '"' + ";".join(",".join(map(str, dims)) for dims in sides) + '"'
        for key, sides in ((_PARAMETER_DIMS, parameters), (_RESULT_DIMS, results))
    }


# ---------------------------------------------------------------- shardings of leaves


def _parameter_shardings(module: Module, parameter: Instruction) -> list[Leaf | None]:
    count = len(list(leaves(parameter.shape)))
    written = _leaf_shardings(parameter.common.sharding, count)
    text = dict(parameter.common.frontend_attributes).get("xla.sdy.sharding", "")
    if any(written) or not text:
        return written
    found = shardy_shardings(text, meshes_of(module))
    return list(found) if len(found) == count else [found[0]] * count


def _leaf_shardings(sharding: Sharding | None, count: int) -> list[Leaf | None]:
    if sharding is None:
        return [None] * count
    elements: Sequence[LeafSharding] = sharding.for_leaves(count).elements
    return list(elements) if len(elements) == count else [None] * count


def _result_shardings(module: Module, root: Instruction) -> list[Leaf | None]:
    parts = list(leaves(root.shape))
    if root.common.sharding is not None:
        return _leaf_shardings(root.common.sharding, len(parts))
    return [_shardy_result(module, root, index) for index, _ in parts]


def _shardy_result(module: Module, root: Instruction, index: ShapeIndex) -> Leaf | None:
    """Return the sharding of the FuncResultSharding that gives leaf `index` of the root."""
    inst, path = root, index
    while True:
        if inst.is_a("tuple") and path:
            inst, path = inst.operands[path[0]], path[1:]
        elif inst.is_a("get-tuple-element"):
            inst, path = inst.operands[0], (inst.attributes.index, *path)
        else:
            break
    if not inst.is_a("custom-call"):
        return None
    if inst.attributes.custom_call_target != "xla.sdy.FuncResultSharding":
        return None
    text = dict(inst.common.frontend_attributes).get("xla.sdy.sharding", "")
    if not text:
        return None
    meshes = meshes_of(module)
    if not path:
        return shardy_shardings(text, meshes)[0]
    return shardy_shardings(text, meshes)[path[0]] if len(path) == 1 else None


# ---------------------------------------------------------------- shapes


def _arrays(
    shapes: Sequence[Shape],
    shardings: Sequence[Sequence[Leaf | None]],
    devices: DeviceCounts,
    is_local: bool,
    whole_dims: Sequence[Dims],
) -> tuple[ShardedArray, ...]:
    found: list[ShardedArray] = []
    for shape, of_leaves in zip(shapes, shardings, strict=True):
        for (_, leaf), sharding in zip(leaves(shape), of_leaves, strict=True):
            array = leaf.array if isinstance(leaf, BufferShape) else leaf
            if array.dtype.is_special:
                continue
            dims = whole_dims[len(found)] if len(found) < len(whole_dims) else None
            found.append(_array(array, sharding, devices, is_local, dims))
    return tuple(found)


def _array(
    array: ArrayShape,
    sharding: Leaf | None,
    devices: DeviceCounts,
    is_local: bool,
    whole_dims: Dims | None,
) -> ShardedArray:
    """Return the whole array and that of one device, whichever of them `array` is (`is_local`).

    `whole_dims` are the sizes of the whole array, if known: those of a local array can only be
    rounded up to the tile.
    """
    rank, partitions = array.rank, devices.partitions
    if devices.replicas > 1 or (sharding is None and is_local):
        return ShardedArray(array, array, None)
    placement = (
        replicated(rank, partitions)
        if sharding is None
        else placement_of(sharding, rank, partitions)
    )
    if placement is None:
        return ShardedArray(array, array, None)
    if not is_local:
        return ShardedArray(
            array, ArrayShape(array.dtype, placement.local_dims(array.dims)), placement
        )
    dims = tuple(n * count for n, count in zip(array.dims, placement.tiles, strict=True))
    if whole_dims is not None and placement.local_dims(whole_dims) == array.dims:
        dims = whole_dims
    return ShardedArray(ArrayShape(array.dtype, dims), array, placement)


def _header_dims(module: Module, key: str) -> list[Dims]:
    text = dict(module.config.frontend_attributes).get(key, "").strip('"')
    if not text:
        return []
    return [tuple(int(n) for n in part.split(",") if n.isdecimal()) for part in text.split(";")]
