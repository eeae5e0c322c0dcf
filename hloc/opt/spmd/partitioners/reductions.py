"""Reductions that all-reduce cannot combine: several operands, or a custom reducer.

Each device reduces its part; the results are gathered, in the order of the parts,
and reduced again. The initial values are then applied several times, so they must be idempotent:
`reducer(init, init)` is `init`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from hloc.errors import HloError
from hloc.evaluator import evaluate_computation
from hloc.ir.instruction import Instruction
from hloc.opt.spmd.combine import is_combinable
from hloc.opt.spmd.local import local_array
from hloc.opt.spmd.region import Region, Value
from hloc.opt.spmd.reshard import reshard, reshard_bytes
from hloc.opt.spmd.tiling import Tiling
from hloc.shapes import ArrayShape, TupleShape


def partition_reduce(
    region: Region, inst: Instruction, values: Sequence[Value], wanted: Tiling | None
) -> Value | tuple[Value, ...] | None:
    """Reduce the part of each device, then the results of all."""
    count, reduced = len(values) // 2, inst.attributes.dimensions
    tiling = values[0].tiling
    axes = tuple(axis for dim in reduced for axis in tiling.dims[dim])
    if not axes or is_combinable(inst) or not _may_repeat(inst.operands[count:], inst):
        return None
    whole = inst.shape.elements if isinstance(inst.shape, TupleShape) else (inst.shape,)
    kept = [dim for dim in range(values[0].whole.rank) if dim not in reduced]
    after = Tiling(region.mesh, tuple(tiling.dims[dim] for dim in kept))
    shapes = [local_array(s, after.local_dims(s.dims)) for s in whole if isinstance(s, ArrayShape)]
    n = region.mesh.size(axes)
    sent = sum(shape.size_bytes for shape in shapes) * (n - 1)
    alike = [u for u in inst.operands[0].users if u.is_a("reduce") and not is_combinable(u)]
    if sent * len(alike) >= round(_otherwise(values[:count], kept, n)):
        return None  # the gathered operands are shared by all such users
    inits = [reshard(region, value, region.whole(0)).inst for value in values[count:]]
    parts = [
        region.masked(reshard(region, value, tiling), reduced, init).inst
        for value, init in zip(values[:count], inits, strict=True)
    ]
    region.explain(inst, "partial results", str(after.sharding()))
    gathered = [
        region.all_gather(region.build.reshape(part, (1, *part.array.dims)), 0, axes)
        for part in _reduced(region, inst, [*parts, *inits], shapes, reduced)
    ]
    region.note = None
    results = _reduced(region, inst, [*gathered, *inits], shapes, (0,))
    found = tuple(
        region.value(result, shape, after)
        for result, shape in zip(results, whole, strict=True)
        if isinstance(shape, ArrayShape)
    )
    if isinstance(inst.shape, TupleShape):
        return found
    return found[0] if wanted is None else reshard(region, found[0], wanted)


def _otherwise(values: Sequence[Value], kept: Sequence[int], n: int) -> float:
    """Return the fewest bytes that a device sends to obtain all elements of some results."""
    tiling = values[0].tiling
    if any(values[0].whole.dims[dim] >= n for dim in kept):
        local = sum(
            v.whole.dtype.storage_bytes * prod(tiling.local_dims(v.whole.dims)) for v in values
        )
        return local * (n - 1) / n
    target = tiling.whole_along([d for d in range(values[0].whole.rank) if d not in kept])
    return sum(reshard_bytes(value, target) for value in values)


def _reduced(
    region: Region,
    inst: Instruction,
    operands: Sequence[Instruction],
    shapes: Sequence[ArrayShape],
    dimensions: Sequence[int],
) -> list[Instruction]:
    """Add the reduction of `operands` over `dimensions`, and return its results."""
    is_tuple = isinstance(inst.shape, TupleShape)
    added = region.annotated(
        region.computation.add(
            inst.opcode,
            TupleShape(tuple(shapes)) if is_tuple else shapes[0],
            operands,
            replace(inst.attributes, dimensions=tuple(dimensions)),
            inst.called,
            name=inst.name,
        )
    )
    if not is_tuple:
        return [added]
    return [region.build.get_tuple_element(added, i) for i in range(len(shapes))]


def _may_repeat(inits: Sequence[Instruction], inst: Instruction) -> bool:
    """True if the initial values are constants that may be applied any number of times."""
    if not all(init.is_a("constant") for init in inits):
        return False
    values = [init.attributes.literal.value for init in inits]
    if any(value is None for value in values):
        return False
    try:
        with np.errstate(all="ignore"):
            found = evaluate_computation(inst.called[0], *values, *values)
    except HloError:
        return False
    results = found if isinstance(found, tuple) else (found,)
    return all(np.array_equal(a, b) for a, b in zip(results, values, strict=True))
