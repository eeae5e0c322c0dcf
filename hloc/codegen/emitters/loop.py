"""The general emitter: one loop nest over the result, each element made by the generator.

Where all arrays lie in memory in the same order, one loop runs over all elements; else a loop per
dimension in the order of the first result, so that the innermost one writes neighbours.
"""

from __future__ import annotations

from hloc.codegen.elemental import RULES
from hloc.codegen.emitters.context import (
    Emitter,
    KernelContext,
    array_leaves,
    no_scratch,
    root_of,
)
from hloc.codegen.index import loop_order, reshape_keeps_order, same_physical_order
from hloc.codegen.ir_array import IrArray
from hloc.ir.instruction import Instruction
from hloc.shapes import ArrayShape, ShapeIndex, leaves


def can_emit(inst: Instruction) -> bool:
    """True for everything the element generator can make."""
    root = root_of(inst)
    name = root.opcode.name
    return root.opcode.elemental is not None or name in RULES or name == "parameter"


def extent(inst: Instruction) -> int:
    """Return the number of elements, or the size of the outermost dimension."""
    shapes = array_leaves(inst.shape)
    if any(shape.dims != shapes[0].dims for shape in shapes):
        return 1
    if is_flat(inst):
        return shapes[0].elements
    order = loop_order(shapes[0])
    return shapes[0].dims[order[0]] if order else 1


def emit(k: KernelContext) -> None:
    """Write the loops, one nest per group of results with equal sizes."""
    shapes = array_leaves(k.inst.shape)
    paths = [path for path, _ in leaves(k.inst.shape)]
    groups: dict[tuple[int, ...], list[int]] = {}
    for number, shape in enumerate(shapes):
        groups.setdefault(shape.dims, []).append(number)
    flat = len(groups) == 1 and is_flat(k.inst)
    for members in groups.values():
        leaders = [(paths[i], k.outputs[i]) for i in members]
        shape = shapes[members[0]]
        if flat:
            _flat_loop(k, leaders, shape)
        else:
            _nest(k, leaders, shape, whole=len(groups) > 1)


def _flat_loop(
    k: KernelContext, outputs: list[tuple[ShapeIndex, IrArray]], shape: ArrayShape
) -> None:
    k.g.flat = True
    with k.body.loop(k.begin, k.end) as position:
        index = (position,) if shape.dims else ()
        values = [k.g.element(k.frame, k.root, index, path) for path, _ in outputs]
        for value, (_, output) in zip(values, outputs, strict=True):
            output.flat(shape.elements).store(k.math, (position,), value)


def _nest(
    k: KernelContext,
    outputs: list[tuple[ShapeIndex, IrArray]],
    shape: ArrayShape,
    whole: bool,
) -> None:
    order = loop_order(shape)
    first_range = None if whole else (k.begin, k.end)
    with k.body.nest(shape.dims, order, first_range) as at:
        index = tuple(at)
        values = [k.g.element(k.frame, k.root, index, path) for path, _ in outputs]
        for value, (_, output) in zip(values, outputs, strict=True):
            output.store(k.math, index, value)


def is_flat(inst: Instruction) -> bool:
    """True if one position in memory serves all arrays of the kernel."""
    shape = array_leaves(inst.shape)[0]
    if any(not _fits(leaf, shape) for leaf in array_leaves(inst.shape)):
        return False
    if inst.opcode.name != "fusion":
        return _member_is_flat(inst, shape) and all(
            not o.array.dims or _fits(o.array, shape) for o in inst.operands
        )
    return all(_member_is_flat(member, shape) for member in inst.called[0].instructions)


def _fits(member: ArrayShape, shape: ArrayShape) -> bool:
    return member.dims == shape.dims and same_physical_order(member, shape)


def _member_is_flat(inst: Instruction, shape: ArrayShape) -> bool:
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
    return flat and _fits(inst.array, shape)


EMITTER = Emitter("loop", can_emit, emit, extent, no_scratch)
