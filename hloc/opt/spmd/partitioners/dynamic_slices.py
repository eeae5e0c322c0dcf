"""Slices at computed indices of sharded dimensions, without gathering the dimension.

A tile padded on both sides by the length of the slice can be sliced at any index:
elements of other tiles fall into the padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hloc.dtypes import S32
from hloc.ir.instruction import Instruction
from hloc.opt.spmd.disjoint_sum import disjoint_sum
from hloc.opt.spmd.halo import sliced
from hloc.opt.spmd.region import Region, Value
from hloc.opt.spmd.reshard import reshard, reshard_bytes
from hloc.opt.spmd.tiling import Tiling


def partition_dynamic_slice(
    region: Region, inst: Instruction, values: Sequence[Value], wanted: Tiling | None
) -> Value | None:
    """Slice the tile of each device, with zeros elsewhere, and add."""
    x, sizes = values[0], inst.attributes.dynamic_slice_sizes
    split = _cut_dims(x, sizes)
    if not split:
        return None
    result = x.tiling.whole_along(split)
    sums = tuple(axis for dim in split for axis in x.tiling.dims[dim])
    local, n = result.local_dims(inst.array.dims), region.mesh.size(sums)
    if 2 * (n - 1) / n * replace(inst.array, dims=local).size_bytes > reshard_bytes(x, result):
        return None
    b = region.build
    starts = _starts(region, x, values[1:], sizes, split)
    padded = _padded(region, x.inst, sizes, split)
    part = region.annotated(b.dynamic_slice(padded, starts, local))
    found = disjoint_sum(region, part, None, inst.array, result, sums, wanted)
    return found if wanted is None else reshard(region, found, wanted)


def partition_dynamic_update_slice(
    region: Region, inst: Instruction, values: Sequence[Value], wanted: Tiling | None
) -> Value | None:
    """Update the tile of each device; only the update is sent."""
    x, update = values[:2]
    sizes = update.whole.dims
    split = _cut_dims(x, sizes)
    if not split:
        return None
    target = x.tiling.whole_along(split)
    if reshard_bytes(update, target) > reshard_bytes(x, target):
        return None
    b = region.build
    starts = _starts(region, x, values[2:], sizes, split)
    padded = _padded(region, x.inst, sizes, split)
    local = b.dynamic_update_slice(padded, reshard(region, update, target).inst, starts)
    region.annotated(local)
    for dim in split:
        local = sliced(region, local, dim, sizes[dim], sizes[dim] + x.inst.array.dims[dim])
    found = region.value(local, inst.array, x.tiling)
    return found if wanted is None else reshard(region, found, wanted)


def _cut_dims(x: Value, sizes: Sequence[int]) -> list[int]:
    """Return the sharded dimensions of which only a part is read or written."""
    dims = enumerate(zip(x.tiling.dims, sizes, x.whole.dims, strict=True))
    return [dim for dim, (axes, size, whole) in dims if axes and size < whole]


def _starts(
    region: Region, x: Value, values: Sequence[Value], sizes: Sequence[int], split: Sequence[int]
) -> list[Instruction]:
    """Return where the slice begins in the padded tile, clamped as in the whole array."""
    b, found = region.build, list[Instruction]()
    for dim, value in enumerate(values):
        start = reshard(region, value, region.whole(0)).inst
        if dim in split:
            dtype = start.array.dtype
            last = b.constant(min(x.whole.dims[dim] - sizes[dim], _largest(dtype.bits)), dtype)
            clamped = b.instruction("clamp", (b.constant(0, dtype), start, last))
            tile = x.inst.array.dims[dim]
            begin = region.offset(x.tiling.dims[dim], tile)
            behind = b.subtract(b.convert(clamped, S32), begin)
            start = b.add(behind, b.constant(sizes[dim], S32))
        elif x.tiling.dims[dim]:
            start = region.zero()  # the whole dimension
        found.append(start)
    if len({start.array.dtype for start in found}) > 1:
        found = [b.convert(start, S32) for start in found]
    return found


def _largest(bits: int) -> int:
    return int((1 << (bits - 1)) - 1)


def _padded(
    region: Region, x: Instruction, sizes: Sequence[int], split: Sequence[int]
) -> Instruction:
    b = region.build
    edges = [sizes[dim] if dim in split else 0 for dim in range(x.array.rank)]
    return b.pad(x, b.constant(0, x.array.dtype), edges, edges)
