"""Reshapes that split and merge dimensions sharded along several axes.

`[x,y]` of `f32[16]` becomes `[x],[y]` of `f32[4,4]` without an exchange: dimensions consist of
factors, major first, as in `reshape_factors.py`, and axes follow their factors.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloc.ir.instruction import Instruction
from hloc.opt.spmd.local import local_array
from hloc.opt.spmd.region import Region, Value
from hloc.opt.spmd.reshape_factors import reshape_factors
from hloc.opt.spmd.reshard import reshard, reshard_bytes
from hloc.opt.spmd.reshard_path import path
from hloc.opt.spmd.tiling import Axes, Dims, Mesh, Tiling

_Factors = Sequence[Sequence[int]]
"""Per dimension its factors by number, major first."""


def partition_reshape(
    region: Region, inst: Instruction, operands: Sequence[Value], wanted: Tiling | None
) -> Value | None:
    """Reshape parts whose axes follow the factors of the dimensions."""
    (value,) = operands
    if value.make is not None or value.tiling.is_replicated or 0 in inst.array.dims:
        return None
    sides, sizes = reshape_factors(value.whole.dims, inst.array.dims)
    kept = _kept(value.whole.dims, inst.array.dims, sides, sizes)
    first = _axes_of_factors(value.tiling, sides[0], sizes, kept)
    found = [first]
    if wanted is not None:
        last = _axes_of_factors(wanted, sides[1], sizes, kept)
        found += [last, _merged(first, last), _merged(last, first)]

    def tilings(axes: dict[int, Axes]) -> tuple[Tiling, Tiling]:
        before, after = (_tiling(region.mesh, side, axes, sizes, kept) for side in sides)
        return before, after

    def price(axes: dict[int, Axes]) -> float:
        before, after = tilings(axes)
        sent = reshard_bytes(value, before)
        if wanted is not None:
            elements, _ = path(inst.array.dims, after, wanted)
            sent += elements * inst.array.dtype.storage_bytes
        return sent

    usable = [axes for axes in found if _same_tiles(*tilings(axes))]
    if not usable:
        return None
    before, after = tilings(min(usable, key=price))
    part = reshard(region, value, before).inst
    shape = local_array(inst.array, after.local_dims(inst.array.dims))
    local = region.computation.add(
        inst.opcode, shape, (part,), inst.attributes, name=inst.name, span=inst.span
    )
    result = region.value(region.annotated(local), inst.array, after)
    return result if wanted is None else reshard(region, result, wanted)


def _kept(old: Dims, new: Dims, sides: Sequence[_Factors], sizes: Sequence[int]) -> frozenset[int]:
    """Return the factors that are full dimensions of both sides: parts need not be equal."""
    alone = [
        {f for dim, factors in enumerate(side) for f in factors if sizes[f] == dims[dim]}
        for dims, side in zip((old, new), sides, strict=True)
    ]
    return frozenset(alone[0] & alone[1])


def _axes_of_factors(
    tiling: Tiling, dims: _Factors, sizes: Sequence[int], kept: frozenset[int]
) -> dict[int, Axes]:
    """Return the axes of each factor; a minor one only if the major ones are fully sharded."""
    found: dict[int, Axes] = {}
    for factors, axes in zip(dims, tiling.dims, strict=True):
        rest = axes
        for factor in factors:
            if factor in kept:
                found[factor] = axes
                break
            found[factor], room = tiling.mesh.dividing(rest, sizes[factor])
            rest = rest[len(found[factor]) :]
            if room > 1:
                break
    return found


def _tiling(
    mesh: Mesh,
    dims: _Factors,
    axes: dict[int, Axes],
    sizes: Sequence[int],
    kept: frozenset[int],
) -> Tiling:
    """Return the tiling of the array with these factors, as far as it can be expressed."""
    found: list[Axes] = []
    for factors in dims:
        own: Axes = ()
        for factor in factors:
            own += axes.get(factor, ())
            if factor in kept or mesh.size(axes.get(factor, ())) != sizes[factor]:
                break
        found.append(own)
    return Tiling(mesh, tuple(found))


def _merged(first: dict[int, Axes], others: dict[int, Axes]) -> dict[int, Axes]:
    """Return `first`, extended by other factors and axes of `others`."""
    used = {axis for axes in first.values() for axis in axes}
    more = {
        factor: axes
        for factor, axes in others.items()
        if not first.get(factor) and not used & set(axes)
    }
    return {**first, **more}


def _same_tiles(before: Tiling, after: Tiling) -> bool:
    """True if both sides have all axes."""
    return before.axes == after.axes
