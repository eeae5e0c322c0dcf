"""Computations of scalars, reducers and combiners, applied to whole arrays."""

from __future__ import annotations

from collections.abc import Sequence

from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.traversal import post_order
from hloc.ops.builder import Builder
from hloc.opt.make import make
from hloc.shapes import ArrayShape


def is_elementwise_body(body: Computation) -> bool:
    """True if `body` is elementwise steps of scalars; its root may be a tuple of them."""
    return all(_is_step(step) for step in body.instructions)


def _is_step(inst: Instruction) -> bool:
    if inst.is_a("tuple"):
        return inst.is_root
    if not isinstance(inst.shape, ArrayShape) or inst.shape.dims:
        return False
    return inst.is_a("parameter", "constant") or inst.opcode.elementwise


def applied(
    b: Builder,
    body: Computation,
    arrays: Sequence[Instruction],
    like: ArrayShape | None = None,
) -> list[Instruction]:
    """Add the steps of elementwise `body` on `arrays` of equal sizes and return its results.

    The results have the layout of `like`, which has the sizes of the arrays; by default row-major.
    """
    like = like or arrays[0].array.with_layout(None)
    values = dict(zip(body.parameters, arrays, strict=True))
    for step in post_order(body):
        if step in values or step.is_a("tuple"):
            continue
        if step.is_a("constant"):
            scalar = b.computation.add(step.opcode, step.shape, (), step.attributes)
            shape = like.with_dtype(scalar.array.dtype)
            values[step] = (
                make(b.computation, "broadcast", shape, scalar, dimensions=())
                if like.dims
                else scalar
            )
        else:
            operands = [values[operand] for operand in step.operands]
            shape = like.with_dtype(step.array.dtype)
            values[step] = b.computation.add(
                step.opcode, shape, operands, step.attributes, common=step.common
            )
    root = body.root
    return [values[part] for part in (root.operands if root.is_a("tuple") else (root,))]
