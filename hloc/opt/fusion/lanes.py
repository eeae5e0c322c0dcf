"""Lanes: the dimension along which the threads of a warp read each array.

A lane is the dimension of an array along which neighbouring threads read neighbouring indices,
or one of `UNIFORM` (all read one element) and `SCATTERED` (anywhere).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from hloc.analysis.gpu_performance import Pattern
from hloc.ir.instruction import Instruction
from hloc.shapes import ArrayShape

Lane: TypeAlias = int

UNIFORM: Lane = -1
SCATTERED: Lane = -2

_NEAR_BYTES = 32
"""Elements within this many bytes share a memory transaction."""

_FROM_BEST = (Pattern.UNIFORM, Pattern.NEIGHBOURS, Pattern.STRIDED)
_SAME_DIMENSION = frozenset({"concatenate", "copy", "dynamic-slice", "pad", "reverse", "slice"})


def fastest(shape: ArrayShape) -> Lane:
    """Return the minor dimension; `UNIFORM` for a single element."""
    return next((dim for dim in shape.minor_to_major if shape.dims[dim] != 1), UNIFORM)


def lane_of_operand(user: Instruction, place: int, lane: Lane) -> Lane:
    """Return the lane of operand `place` of `user`, which is read along `lane` itself."""
    operand = user.operands[place].array
    if operand.elements == 1:
        return UNIFORM
    if lane < 0:
        return lane
    name = user.opcode.name
    if user.opcode.elementwise or name in _SAME_DIMENSION:
        return lane
    if name == "broadcast":
        dims = user.attributes.dimensions
        return dims.index(lane) if lane in dims else UNIFORM
    if name == "transpose":
        return int(user.attributes.dimensions[lane])
    if name in ("reshape", "bitcast"):
        return _of_reshape(user.array, operand, lane)
    if name == "reduce":
        reduced = user.attributes.dimensions
        return [d for d in range(operand.rank) if d not in reduced][lane]
    if name == "gather":
        return _of_gather(user, place, lane)
    return lane if operand.dims == user.array.dims else SCATTERED


def pattern_of(shape: ArrayShape, lane: Lane) -> Pattern:
    """Return the access pattern of a warp that reads an array along `lane`."""
    if lane == UNIFORM or shape.elements == 1:
        return Pattern.UNIFORM
    if lane == SCATTERED:
        return Pattern.STRIDED
    distance = shape.dtype.storage_bytes
    for dim in shape.minor_to_major:
        if dim == lane:
            break
        distance *= shape.dims[dim]
    return Pattern.NEIGHBOURS if distance <= _NEAR_BYTES else Pattern.STRIDED


def worst_lane(shape: ArrayShape, lanes: Iterable[Lane]) -> Lane:
    """Return the lane in which reading an array is slowest."""
    return max(lanes, key=lambda lane: _FROM_BEST.index(pattern_of(shape, lane)))


def _of_reshape(result: ArrayShape, operand: ArrayShape, lane: Lane) -> Lane:
    """Return the dimension of the operand with the same stride."""
    step = _step(result, lane)
    for dim in operand.minor_to_major:
        if operand.dims[dim] == 1:
            continue
        first = _step(operand, dim)
        if first <= step < first * operand.dims[dim]:
            return dim
    return SCATTERED


def _step(shape: ArrayShape, dim: int) -> int:
    step = 1
    for other in shape.minor_to_major:
        if other == dim:
            break
        step *= shape.dims[other]
    return step


def _of_gather(user: Instruction, place: int, lane: Lane) -> Lane:
    attributes = user.attributes
    offsets = attributes.offset_dims
    operand = user.operands[place].array
    if place == 1:
        if lane in offsets:
            return UNIFORM
        batch = [d for d in range(user.array.rank) if d not in offsets].index(lane)
        return batch + 1 if batch >= attributes.index_vector_dim else batch
    if lane not in offsets:
        return SCATTERED
    gone = {*attributes.collapsed_slice_dims, *attributes.operand_batching_dims}
    kept: list[int] = [d for d in range(operand.rank) if d not in gone]
    return kept[int(offsets.index(lane))]
