"""Sums over devices: an all-reduce, or a reduce-scatter if a part of the result is wanted."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from hloc.dtypes import DType
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.opt.spmd.region import Region, Value
from hloc.opt.spmd.tiling import Axes, Tiling
from hloc.shapes import ArrayShape


def summed(
    region: Region,
    local: Instruction,
    whole: ArrayShape,
    tiling: Tiling,
    axes: Axes,
    reducer: Computation,
    wanted: Tiling | None,
) -> Value:
    """Combine along `axes`: by a reduce-scatter if a dimension is wanted sharded by them."""
    if wanted is not None:
        for dim, target in enumerate(wanted.dims):
            more = target[len(tiling.dims[dim]) :]
            split = tiling.with_dim(dim, target)
            if (
                target[: len(tiling.dims[dim])] == tiling.dims[dim]
                and more
                and set(more) == set(axes)
                and split.is_even(whole.dims, dim)
            ):
                part = _noted(
                    region, split, partial(region.reduce_scatter, local, dim, more, reducer)
                )
                return region.value(part, whole, split)
    total = _noted(region, tiling, partial(region.all_reduce, local, axes, reducer))
    return region.value(total, whole, tiling)


def _noted(region: Region, result: Tiling, exchange: Callable[[], Instruction]) -> Instruction:
    """Return the result of `exchange`, with the note that its operand has partial sums.

    A reshard keeps its own note.
    """
    if region.origin is None or region.note is not None:
        return exchange()
    region.explain(region.origin, "partial sums", str(result.sharding()))
    found = exchange()
    region.note = None
    return found


def reducer(region: Region, opcode: str, dtype: DType) -> Computation:
    key = (opcode, dtype.name)
    reducers = region.shared.reducers
    if key not in reducers:
        reducers[key] = region.build.scalar_function(opcode, dtype)
    return reducers[key]
