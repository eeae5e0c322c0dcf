"""Gathers and scatters into sharded dimensions: each device handles the indices of its tile.

An index becomes an index into the tile. A scatter drops indices outside. A gather gives
zeros there, and the devices' results are added as bit patterns, so that -0 and NaN survive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hloc.dtypes import PRED, S32, S64
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.opt.spmd.disjoint_sum import disjoint_sum
from hloc.opt.spmd.partitioners.scatter_sums import scatter_parts
from hloc.opt.spmd.region import Region, Value
from hloc.opt.spmd.reshard import reshard, reshard_bytes
from hloc.opt.spmd.sums import reducer
from hloc.opt.spmd.tiling import Tiling, replicated


@dataclass(frozen=True, slots=True)
class _Places:
    """How indices address an operand.

    Attributes:
        dims: the operand's dimension for each component.
        at: the dimension of the components; the rank of the indices if there is only one.
        split: dimensions that are indexed and sharded.
    """

    dims: Sequence[int]
    at: int
    split: Sequence[int]


def partition_gather(
    region: Region, inst: Instruction, values: Sequence[Value], wanted: Tiling | None
) -> Value | None:
    """Gather from the tile of each device, and add."""
    at, (x, indices) = inst.attributes, values
    split = [d for d in at.start_index_map if x.tiling.dims[d] and at.slice_sizes[d] == 1]
    if not split or not x.whole.elements:
        return None
    kept, result = replicated(region.mesh, x.whole.rank), replicated(region.mesh, inst.array.rank)
    for dim in split:
        kept = kept.with_dim(dim, x.tiling.dims[dim])
    dropped = (*at.collapsed_slice_dims, *at.operand_batching_dims)
    windows = [d for d in range(x.whole.rank) if d not in dropped]
    for dim, target in zip(windows, at.offset_dims, strict=True):
        if at.slice_sizes[dim] == x.whole.dims[dim] and dim not in split:
            kept = kept.with_dim(dim, x.tiling.dims[dim])
            result = result.with_dim(target, x.tiling.dims[dim])
    batch = [d for d in range(inst.array.rank) if d not in at.offset_dims]
    rows = [d for d in range(indices.whole.rank) if d != at.index_vector_dim]
    starts = replicated(region.mesh, indices.whole.rank)
    batched = dict(zip(at.start_indices_batching_dims, at.operand_batching_dims, strict=True))
    for dim, row in zip(batch, rows, strict=True):
        axes = indices.tiling.dims[row]
        if row in batched:
            axes = x.tiling.dims[batched[row]] or axes
        if not set(axes) & kept.axes:
            if row in batched:
                kept = kept.with_dim(batched[row], axes)
            starts, result = starts.with_dim(row, axes), result.with_dim(dim, axes)
    sums = tuple(axis for dim in split for axis in kept.dims[dim])
    n, local = region.mesh.size(sums), result.local_dims(inst.array.dims)
    cost = 2 * (n - 1) / n * replace(inst.array, dims=local).size_bytes
    cost += reshard_bytes(x, kept) + reshard_bytes(indices, starts)
    if cost > reshard_bytes(x, kept.whole_along(split)) + reshard_bytes(indices, starts):
        return None
    x, indices = reshard(region, x, kept), reshard(region, indices, starts)
    places = _Places(at.start_index_map, at.index_vector_dim, split)
    own, inside = _own_indices(region, x, indices, places, at.slice_sizes)
    sizes = [
        m if s == n else s
        for s, n, m in zip(at.slice_sizes, x.whole.dims, x.inst.array.dims, strict=True)
    ]
    sizes = [1 if d in split else size for d, size in enumerate(sizes)]
    found = region.computation.add(
        inst.opcode,
        replace(inst.array, dims=local),
        (x.inst, own),
        replace(at, slice_sizes=tuple(sizes)),
    )
    held = region.build.broadcast(inside, local, batch)
    value = disjoint_sum(region, region.annotated(found), held, inst.array, result, sums, wanted)
    return value if wanted is None else reshard(region, value, wanted)


def partition_scatter(
    region: Region, inst: Instruction, values: Sequence[Value], wanted: Tiling | None
) -> Value | None:
    """Scatter into the tile of each device; updates of other tiles are dropped."""
    at, count = inst.attributes, len(values) // 2
    if count != 1 or values[1].whole.dtype not in (S32, S64):
        return None
    x, indices, updates = values
    tiling = x.tiling if wanted is None or not x.tiling.is_replicated else wanted
    plan = _scatter_tilings(region, inst, x, indices, updates, tiling)
    if plan is None:
        return scatter_parts(region, inst, values, wanted)
    split, kept, starts, parts = plan
    cost = reshard_bytes(x, kept) + reshard_bytes(updates, parts) + reshard_bytes(indices, starts)
    gathered = reshard_bytes(x, kept.whole_along(split))
    if cost > gathered and x.tiling.axes:
        return None
    x, indices = reshard(region, x, kept), reshard(region, indices, starts)
    updates = reshard(region, updates, parts)
    places = _Places(at.scatter_dims_to_operand_dims, at.index_vector_dim, split)
    own = _from_own_tile(region, x, indices.inst, places)
    found = region.computation.add(
        inst.opcode, x.inst.array, (x.inst, own, updates.inst), at, inst.called
    )
    value = region.value(region.annotated(found), inst.array, kept)
    return value if wanted is None else reshard(region, value, wanted)


def _scatter_tilings(
    region: Region,
    inst: Instruction,
    x: Value,
    indices: Value,
    updates: Value,
    tiling: Tiling,
) -> tuple[list[int], Tiling, Tiling, Tiling] | None:
    """Return the sharded indexed dimensions, and the tilings of the operands."""
    at = inst.attributes
    mesh = region.mesh
    dropped = (*at.inserted_window_dims, *at.input_batching_dims)
    windows = [d for d in range(x.whole.rank) if d not in dropped]
    size = dict(zip(windows, (updates.whole.dims[u] for u in at.update_window_dims), strict=True))
    pointed = at.scatter_dims_to_operand_dims
    split = [d for d in pointed if tiling.dims[d] and size.get(d, 1) == 1]
    if not split:
        return None
    kept = replicated(mesh, x.whole.rank)
    starts, parts = replicated(mesh, indices.whole.rank), replicated(mesh, updates.whole.rank)
    for dim in split:
        kept = kept.with_dim(dim, tiling.dims[dim])
    for dim, update in zip(windows, at.update_window_dims, strict=True):
        if dim not in split and size[dim] == x.whole.dims[dim]:
            kept, parts = (
                kept.with_dim(dim, tiling.dims[dim]),
                parts.with_dim(update, tiling.dims[dim]),
            )
    rows = [d for d in range(indices.whole.rank) if d != at.index_vector_dim]
    scattered = [d for d in range(updates.whole.rank) if d not in at.update_window_dims]
    pairs = zip(at.input_batching_dims, at.scatter_indices_batching_dims, strict=True)
    for dim, row in pairs:
        axes = tiling.dims[dim]
        kept, starts = kept.with_dim(dim, axes), starts.with_dim(row, axes)
        parts = parts.with_dim(scattered[rows.index(row)], axes)
    return split, kept, starts, parts


# ---------------------------------------------------------------- indices


def _own_indices(
    region: Region, x: Value, indices: Value, places: _Places, sizes: Sequence[int]
) -> tuple[Instruction, Instruction]:
    """Return indices into the tile, clamped as by a gather, and a mask of rows in it."""
    b, raw = region.build, indices.inst
    limits = [x.whole.dims[d] - sizes[d] for d in places.dims]
    low, high = (
        _spread(region, _constant(region, n, raw), raw, places.at)
        for n in ([0] * len(limits), limits)
    )
    clamped = b.convert(b.instruction("clamp", (low, raw, high)), S32)
    own = _from_own_tile(region, x, clamped, places)
    last = [
        x.inst.array.dims[d] - 1 if d in places.split else n
        for d, n in zip(places.dims, limits, strict=True)
    ]
    zero = b.splat(0, own.array)
    bound = _spread(region, _constant(region, last, own), own, places.at)
    inside = b.logical_and(b.compare(own, zero, "GE"), b.compare(own, bound, "LE"))
    if places.at < own.array.rank:
        both = reducer(region, "and", PRED)
        inside = b.reduce((inside,), (b.constant(True, PRED),), (places.at,), both)
    return own, inside


def _from_own_tile(region: Region, x: Value, indices: Instruction, places: _Places) -> Instruction:
    """Return indices relative to the tile of this device."""
    b, dtype = region.build, indices.array.dtype
    offsets = [
        region.offset(x.tiling.dims[dim], x.inst.array.dims[dim])
        if dim in places.split
        else region.zero()
        for dim in places.dims
    ]
    if places.at == indices.array.rank:
        row = offsets[0]
    elif len(offsets) == 1:
        row = b.reshape(offsets[0], (1,))
    else:
        row = b.concatenate([b.reshape(offset, (1,)) for offset in offsets], 0)
    return b.subtract(indices, _spread(region, b.convert(row, dtype), indices, places.at))


def _constant(region: Region, numbers: Sequence[int], like: Instruction) -> Instruction:
    """Return one number for each component, in the type of `like`."""
    info = np.iinfo(like.array.dtype.numpy)
    return region.build.constant(np.minimum(np.array(numbers), info.max), like.array.dtype)


def _spread(region: Region, row: Instruction, indices: Instruction, at: int) -> Instruction:
    """Repeat one number for each component over all indices."""
    if at == indices.array.rank:
        if row.array.rank:
            row = region.build.reshape(row, ())
        return region.build.broadcast(row, indices.array.dims)
    return region.build.broadcast(row, indices.array.dims, (at,))
