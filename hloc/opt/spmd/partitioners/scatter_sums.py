"""Scatters of sharded updates into a replicated array: local scatters, then a sum.

Examples are `segment_sum` and histograms. Each device starts from the neutral element; the operand
is combined with the sum of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hloc.ir.instruction import Instruction
from hloc.opt.spmd.combine import identity, reducer_opcode
from hloc.opt.spmd.region import Region, Value
from hloc.opt.spmd.reshard import reshard, reshard_bytes
from hloc.opt.spmd.sums import summed
from hloc.opt.spmd.tiling import Axes, Tiling


def scatter_parts(
    region: Region, inst: Instruction, values: Sequence[Value], wanted: Tiling | None
) -> Value | None:
    """Scatter the updates of each device, and combine the results by an all-reduce."""
    (x, indices, updates), b = values, region.build
    opcode = reducer_opcode(inst)
    if not opcode or x.tiling.axes or updates.whole.dtype is not x.whole.dtype:
        return None
    starts, parts, axes = _rows(region, inst, indices, updates)
    n = region.mesh.size(axes)
    sent = 2 * (n - 1) / n * x.whole.size_bytes
    sent += reshard_bytes(indices, starts) + reshard_bytes(updates, parts)
    whole = [region.whole(value.whole.rank) for value in (indices, updates)]
    if sent >= reshard_bytes(indices, whole[0]) + reshard_bytes(updates, whole[1]):
        return None
    neutral, at = identity(opcode, x.whole.dtype), inst.attributes
    rows = [dim for dim, own in enumerate(parts.dims) if own]
    fill = b.constant(neutral, x.whole.dtype)
    own = region.masked(reshard(region, updates, parts), rows, fill)
    if own.inst is not reshard(region, updates, parts).inst:  # indices of padding may be any
        at = replace(at, unique_indices=False, indices_are_sorted=False)
    operands = b.splat(neutral, x.whole), reshard(region, indices, starts).inst, own.inst
    local = region.computation.add(
        inst.opcode, inst.array, operands, at, inst.called, name=inst.name
    )
    local = region.annotated(local)
    total = summed(region, local, inst.array, x.tiling, axes, inst.called[0], wanted)
    kept = reshard(region, x, total.tiling)
    result = region.annotated(b.instruction(opcode, (kept.inst, total.inst)))
    value = region.value(result, inst.array, total.tiling)
    return value if wanted is None else reshard(region, value, wanted)


def _rows(
    region: Region, inst: Instruction, indices: Value, updates: Value
) -> tuple[Tiling, Tiling, Axes]:
    """Return the tilings of indices and updates by rows, and their axes."""
    at, axes = inst.attributes, list[int]()
    starts, parts = region.whole(indices.whole.rank), region.whole(updates.whole.rank)
    rows = [dim for dim in range(updates.whole.rank) if dim not in at.update_window_dims]
    places = [dim for dim in range(indices.whole.rank) if dim != at.index_vector_dim]
    for row, place in zip(rows, places, strict=True):
        own = updates.tiling.dims[row] or indices.tiling.dims[place]
        if not set(own) & set(axes) and place not in at.scatter_indices_batching_dims:
            starts, parts = starts.with_dim(place, own), parts.with_dim(row, own)
            axes += own
    return starts, parts, tuple(axes)
