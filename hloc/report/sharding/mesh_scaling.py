"""An annotated program on a mesh of other sizes, to plan for machines that are not at hand."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from hloc.analysis.network.sharding_axes import axes_by_dimension, tiled_by_axes
from hloc.errors import HloError
from hloc.ir.clone import clone_module
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.replica_groups import MAX_DEVICES, DeviceMesh
from hloc.ir.sharding import LeafSharding, TupleSharding
from hloc.ir.traversal import all_instructions

_MESHES = "xla.sdy.meshes"
_SUB_AXIS = re.compile(r'\\?":\(\d+\)\d+')
_REGIONS = ("SPMDFullToShardShape", "xla.sdy.GlobalToLocalShape")

Axes = tuple[tuple[str, int], ...]


def scaled_axes(own: Axes, given: Axes, devices: int) -> Axes:
    """Return the axes of the new mesh, with the axis names of the module.

    Args:
        own: axes of the module.
        given: `--mesh`, by name or in the same order; () scales the first axis.
        devices: `--devices`, 0 if not given.

    Raises:
        HloError: sizes and number of devices do not match.
    """
    total = DeviceMesh(own).count
    if not given:
        first, size = own[0]
        rest = total // size
        if devices % rest:
            raise HloError(f"{devices} devices are no multiple of {rest}, the mesh behind {first}")
        given = ((first, devices // rest), *own[1:])
    count = DeviceMesh(given).count
    if devices and count != devices:
        raise HloError(f"the mesh has {count} devices, but --devices={devices}")
    if count > MAX_DEVICES:
        raise HloError(f"the mesh has {count} devices, more than {MAX_DEVICES}")
    names = [name for name, _ in own]
    if {name for name, _ in given} == set(names):
        return tuple((name, dict(given)[name]) for name in names)
    if len(given) != len(own):
        text = ",".join(f"{name}={size}" for name, size in own)
        raise HloError(f"the mesh has {len(given)} axes, but the module's has {len(own)}: {text}")
    return given


def scaled(module: Module, old: DeviceMesh, axes: Axes) -> Module:
    """Return `module`, annotated for the mesh `old`, with each of its axes replaced by `axes`.

    Raises:
        HloError: a sharding follows no axes of the module's mesh, or a manual region has shapes for
            its number of devices.
    """
    result = clone_module(module)
    new = DeviceMesh(axes)
    names = {before: after for (before, _), (after, _) in zip(old.axes, axes, strict=True)}

    def leaf(sharding: LeafSharding, inst: Instruction) -> LeafSharding:
        if sharding.tiles is None:
            return sharding
        split = axes_by_dimension(sharding, old)
        if split is None:
            raise HloError(
                f"the sharding of '{inst.name}' follows no axes of its mesh, so it has no meaning "
                "on another one",
                inst.span,
            )
        return tiled_by_axes(tuple(tuple(names[n] for n in dim) for dim in split), new)

    for inst in list(all_instructions(result)):
        _check(inst)
        _set_sharding(inst, leaf)
    pairs = [(key, value) for key, value in result.config.frontend_attributes if key != _MESHES]
    if len(pairs) != len(result.config.frontend_attributes):
        inner = ", ".join(
            f'"{name}"={size}' for (name, _), (_, size) in zip(old.axes, axes, strict=True)
        )
        value = _renamed_mesh(dict(result.config.frontend_attributes)[_MESHES], inner)
        pairs.append((_MESHES, value))
    config = replace(
        result.config, num_partitions=new.count, frontend_attributes=tuple(sorted(pairs))
    )
    result.set_config(config)
    return result


def _renamed_mesh(text: str, inner: str) -> str:
    """Put the axes `inner` into the one mesh of Shardy's text."""
    found = re.findall(r"#sdy\.mesh<", text)
    if len(found) != 1:
        raise HloError(f"the module names {len(found)} meshes; only one can be given other sizes")
    if "\\" in text:
        inner = inner.replace('"', '\\"')
    return re.sub(r"#sdy\.mesh<.*?>", lambda _: f"#sdy.mesh<[{inner}]>", text)


def _check(inst: Instruction) -> None:
    if inst.is_a("custom-call") and inst.attributes.custom_call_target in _REGIONS:
        raise HloError(
            "a manual region has the shapes of one device, so it fits its own mesh only", inst.span
        )
    if any(_SUB_AXIS.search(value) for _, value in inst.common.frontend_attributes):
        raise HloError(f"'{inst.name}' is split by part of a mesh axis", inst.span)


def _set_sharding(
    inst: Instruction, leaf: Callable[[LeafSharding, Instruction], LeafSharding]
) -> None:
    sharding = inst.common.sharding
    if sharding is None:
        return
    if isinstance(sharding, TupleSharding):
        changed = TupleSharding(tuple(leaf(element, inst) for element in sharding.elements))
        inst.computation.set_common(inst, replace(inst.common, sharding=changed))
    else:
        inst.computation.set_common(inst, replace(inst.common, sharding=leaf(sharding, inst)))
