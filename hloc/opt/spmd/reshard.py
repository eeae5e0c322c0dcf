"""Reshards a value to another tiling, by the collectives that move the fewest bytes."""

from __future__ import annotations

from dataclasses import replace

from hloc.dtypes import S32
from hloc.ir.instruction import Instruction
from hloc.opt.spmd.disjoint_sum import disjoint_sum
from hloc.opt.spmd.region import Maker, Region, Value
from hloc.opt.spmd.reshard_path import Step, pairs, path
from hloc.opt.spmd.tiling import NO_AXES, Tiling
from hloc.shapes import ArrayShape


def reshard(region: Region, value: Value, target: Tiling) -> Value:
    """Return `value` with the tiling `target`."""
    if value.tiling == target:
        return value
    if target not in value.forms:
        if value.make is not None and not target.refines(value.tiling):
            found = value.forms[target] = value.make.run(target)
        else:
            found = _exchanged(region, value, target)
        found.make = found.make or value.make
        if value.tiling.is_replicated and found.make is None:
            found.make = Maker(lambda other: reshard(region, value, other))
    return value.forms[target]


def _exchanged(region: Region, value: Value, target: Tiling) -> Value:
    found, manual = _nearest(value, target), value.manual | region.manual
    region.explain(value.inst, str(value.tiling.sharding()), str(target.sharding()))
    start, end = (replace(tiling, manual=manual) for tiling in (found.tiling, target))
    for step in path(value.whole.dims, start, end)[1]:
        tiling = replace(step.tiling, manual=NO_AXES)
        found = Value(_moved(region, found, start, step), value.whole, tiling, manual)
        value.forms[tiling], start = found, step.tiling
    region.note = None
    return found


def reshard_bytes(value: Value, target: Tiling) -> float:
    """Return the bytes that each partition sends to reshard `value` to `target` (rings)."""
    if value.make is not None:
        return 0.0
    elements, _ = path(value.whole.dims, _nearest(value, target).tiling, target)
    return elements * value.whole.dtype.storage_bytes


def _nearest(value: Value, target: Tiling) -> Value:
    """Return the form of `value` from which resharding to `target` is cheapest."""
    forms = [value, *value.forms.values()]
    return min(forms, key=lambda form: path(value.whole.dims, form.tiling, target)[0])


def _moved(region: Region, value: Value, now: Tiling, step: Step) -> Instruction:
    """Return the local part of `value`, which has the tiling `now`, after one step."""
    x, target = value.inst, step.tiling.local_dims(value.whole.dims)
    if step.kind == "slice":
        return region.sliced(x, step.dim, step.axes)
    if step.kind == "permute":
        return region.permute(x, pairs(now, step.tiling))
    if step.kind == "join":
        return _gathered_by_sum(region, value, step)
    if step.kind == "gather":
        x = region.all_gather(x, step.dim, step.axes)
    else:
        n = region.mesh.size(step.axes)
        x = region.padded(x, step.other, n * target[step.other])
        x = region.all_to_all(x, step.dim, step.other, step.axes)
    return region.cut(x, step.dim, target[step.dim])


def _gathered_by_sum(region: Region, value: Value, step: Step) -> Instruction:
    """Place the single element along `step.dim`, and add those of all devices."""
    b, x, size = region.build, value.inst, value.whole.dims[step.dim]
    dims = list(x.array.dims)
    dims[step.dim] = size
    others = [dim for dim in range(len(dims)) if dim != step.dim]
    spread = b.broadcast(b.reshape(x, [dims[dim] for dim in others]), dims, dimensions=others)
    places = b.iota(S32, dims, step.dim)
    held = b.compare(places, b.broadcast(region.offset(step.axes, 1), dims), "EQ")
    axes, whole = step.axes, ArrayShape(x.array.dtype, tuple(dims))
    return disjoint_sum(region, spread, held, whole, step.tiling, axes, None).inst
