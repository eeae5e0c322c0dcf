"""Concatenate: one loop nest per operand, so that no element tests which operand it comes from.

Dimensions slower than the concatenated one are loops around all operands, so that the result is
written from beginning to end.
"""

from __future__ import annotations

from functools import partial

from hloc.codegen.builder.index import loop_order
from hloc.codegen.kernels.boundaries import boundaries
from hloc.codegen.kernels.context import KernelContext, root_of
from hloc.codegen.kernels.emitter import KernelPlan
from hloc.ir.instruction import Instruction


def plan(inst: Instruction) -> KernelPlan[KernelContext] | None:
    """Plan a concatenate; threads share the outermost dimension unless it is concatenated.

    If the operands have boundaries along another dimension, the loop emitter takes the instruction,
    as it splits the loops of both.
    """
    root = root_of(inst)
    around = _around(root)
    if any(boundaries(inst, dim) for dim in around):
        return None
    return KernelPlan(partial(_emit, around), root.array.dims[around[0]] if around else 1)


def _around(root: Instruction) -> list[int]:
    """Return the dimensions with loops around all operands, slowest first."""
    order = loop_order(root.array)
    (dim,) = root.attributes.dimensions
    return order[: order.index(dim)] if dim in order else order


def _emit(around: list[int], k: KernelContext) -> None:
    """Write the operands one after another, inside loops over the dimensions `around` them."""
    (dim,) = k.root.attributes.dimensions
    with k.body.nest(k.root.array.dims, around, (k.begin, k.end)) as outer:
        first = 0
        for operand in k.root.operands:
            shape = operand.array.with_layout(k.root.array.layout)
            inner = [dim for dim in loop_order(shape) if dim not in around]
            with k.body.nest(shape.dims, inner) as at:
                index = [outer[d] if d in around else at[d] for d in range(shape.rank)]
                value = k.read(operand, tuple(index))
                index[dim] = k.math.add(index[dim], first)
                k.output.store(k.math, tuple(index), value)
            first += operand.array.dims[dim]
