"""Kernels that are loops over the elements of a result, and when one flat loop suffices."""

from __future__ import annotations

from hloc.codegen.builder.index import reshape_keeps_order, same_physical_order
from hloc.codegen.elements.elemental import has_rule
from hloc.codegen.kernels.context import root_of
from hloc.ir.instruction import Instruction
from hloc.shapes import ArrayShape, array_leaves


def is_generated(inst: Instruction) -> bool:
    """True for everything that the element generator supports."""
    return has_rule(root_of(inst))


def is_flat(inst: Instruction, given: Instruction | None = None) -> bool:
    """True if all arrays of the kernel have equal indices at equal positions in memory.

    Member `given` of a fusion is in memory already; instructions that only it needs are ignored.
    """
    shape = array_leaves(inst.shape)[0]
    if any(not fits_shape(leaf, shape) for leaf in array_leaves(inst.shape)):
        return False
    if inst.opcode.name != "fusion":
        return member_is_flat(inst, shape) and all(
            not o.array.dims or fits_shape(o.array, shape) for o in inst.operands
        )
    hidden = _hidden_by(given) if given else ()
    return all(
        member_is_flat(member, shape)
        for member in inst.called[0].instructions
        if member not in hidden
    )


def _hidden_by(given: Instruction) -> set[Instruction]:
    """Return `given` and the operands that nothing else reads."""
    return {given, *(o for o in given.operands if all(user is given for user in o.users))}


def fits_shape(member: ArrayShape, shape: ArrayShape) -> bool:
    return member.dims == shape.dims and same_physical_order(member, shape)


def member_is_flat(inst: Instruction, shape: ArrayShape) -> bool:
    """True if element i of `inst`, in memory order, needs element i of its operands only.

    `shape` is that of the loop. Scalars and uniform constants fit any loop.
    """
    name = inst.opcode.name
    if name == "tuple":
        return True
    if not isinstance(inst.shape, ArrayShape):
        return False
    if name in ("reshape", "bitcast"):
        source = inst.operands[0].array
        if source.dtype.storage_bytes != inst.array.dtype.storage_bytes:
            return False
        if bool(source.dims) != bool(inst.array.dims):
            return not source.dims
        if name == "reshape" and not reshape_keeps_order(source, inst.array):
            return False
        return not inst.array.dims or inst.array.elements == shape.elements
    if not inst.array.dims:
        return name in ("parameter", "constant") or inst.opcode.elemental is not None
    if name == "broadcast":
        return not inst.operands[0].array.dims
    if name == "constant" and inst.attributes.literal.uniform is not None:
        return True
    flat = name in ("parameter", "constant") or inst.opcode.elemental is not None
    return flat and fits_shape(inst.array, shape)
