"""Axes: map dimensions of values computed from a dot to the dot's loops.

Every dimension of a dot larger than 1 is an axis. A dimension of a value computed from
the dot stands for some axes in order, as after a reshape, or for none, as in a broadcast row value.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TypeAlias

from hloc.ir.instruction import Instruction

Axes: TypeAlias = tuple[int, ...]
"""Dimensions of the dot, slowest first; empty for a size of 1."""

Dims: TypeAlias = tuple[Axes | None, ...]
"""Per dimension its axes; None where all elements along it are equal."""


def dims_of_dot(dot: Instruction) -> Dims:
    """Return every dimension larger than 1 as an axis of its own."""
    return tuple((d,) if size != 1 else () for d, size in enumerate(dot.array.dims))


def dims_of(inst: Instruction, known: dict[Instruction, Dims], sizes: Sequence[int]) -> Dims | None:
    """Return the axes of `inst`, some of whose operands are known; None if it has none.

    Args:
        inst: elementwise, a reduce, or moves elements.
        known: axes of values computed from the dot; other operands are ignored.
        sizes: sizes of the dot's axes.
    """
    name = inst.opcode.name
    operands = [operand for operand in inst.operands if operand in known]
    if inst.opcode.elementwise or name == "copy":
        if any(operand.array.dims != inst.array.dims for operand in operands):
            return None
        return _agreed([known[operand] for operand in operands])
    if len(operands) != 1 or operands[0] is not inst.operands[0]:
        return None
    dims = known[operands[0]]
    if name == "reduce" and len(inst.operands) == 2:
        return tuple(x for d, x in enumerate(dims) if d not in inst.attributes.dimensions)
    if name == "transpose":
        return tuple(dims[d] for d in inst.attributes.dimensions)
    if name == "broadcast":
        found: list[Axes | None] = [None if size != 1 else () for size in inst.array.dims]
        for place, d in enumerate(inst.attributes.dimensions):
            found[d] = dims[place]
        return tuple(found)
    return regrouped(dims, inst.array.dims, sizes) if name == "reshape" else None


def _agreed(operands: list[Dims]) -> Dims | None:
    """Return the axes that elementwise operands share."""
    found: list[Axes | None] = list(operands[0])
    for dims in operands[1:]:
        for d, axes in enumerate(dims):
            if found[d] is None:
                found[d] = axes
            elif axes is not None and axes != found[d]:
                return None
    return tuple(found)


def regrouped(dims: Dims, new_dims: Sequence[int], sizes: Sequence[int]) -> Dims | None:
    """Return the axes after a reshape, None if it splits an axis."""
    if any(axes is None for axes in dims):
        return None
    waiting = [axis for axes in dims for axis in axes or ()]
    found: list[Axes] = []
    for size in new_dims:
        count, product = 0, 1
        while product < size and count < len(waiting):
            product *= sizes[waiting[count]]
            count += 1
        if product != size:
            return None
        found.append(tuple(waiting[:count]))
        waiting = waiting[count:]
    return tuple(found)


def flat(dims: Dims) -> Axes:
    """Return all axes in order."""
    return tuple(axis for axes in dims for axis in axes or ())


def axis_strides(
    dims: Sequence[Axes | None], strides: Sequence[int], sizes: Sequence[int]
) -> dict[int, int]:
    """Return the stride of every axis in an array whose dimensions have `strides`."""
    found: dict[int, int] = {}
    for axes, stride in zip(dims, strides, strict=True):
        for place, axis in enumerate(axes or ()):
            found[axis] = stride * prod(sizes[after] for after in (axes or ())[place + 1 :])
    return found
