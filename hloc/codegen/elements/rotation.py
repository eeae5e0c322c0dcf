"""Rotations: concatenations of slices of one array, such as `jnp.roll` makes of them.

An element of one is an element of the array at another position. To choose the position takes no
branch: loops over other dimensions are vectorised as if nothing were rotated.
"""

from __future__ import annotations

from collections.abc import Container

from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Rotation:
    """How a concatenation reads the array of which its operands are slices.

    Attributes:
        operand: the array.
        dim: the dimension of the concatenation.
        starts: where in the array each operand of the concatenation begins along `dim`.
        others: where in the array all of them begin, by dimension; 0 for `dim`.
    """

    operand: Instruction
    dim: int
    starts: tuple[int, ...]
    others: tuple[int, ...]


def rotation_of(inst: Instruction, in_memory: Container[Instruction] = ()) -> Rotation | None:
    """Return how `inst` rotates an array; None if it does not.

    Args:
        inst: any instruction.
        in_memory: instructions whose elements are loaded, not computed from their operands'.
    """
    if not inst.is_a("concatenate"):
        return None
    if not all(o.is_a("slice") and o not in in_memory for o in inst.operands):
        return None
    (dim,) = inst.attributes.dimensions
    operand = inst.operands[0].operands[0]
    slices = [part.attributes.slice for part in inst.operands]
    places = {
        tuple(0 if d == dim else bounds.start for d, bounds in enumerate(part)) for part in slices
    }
    has_strides = any(bounds.stride != 1 for part in slices for bounds in part)
    if has_strides or len(places) > 1 or any(o.operands[0] is not operand for o in inst.operands):
        return None
    return Rotation(operand, dim, tuple(part[dim].start for part in slices), places.pop())
