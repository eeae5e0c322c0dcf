"""Sink slices below elementwise instructions."""

from __future__ import annotations

from collections.abc import Hashable

from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.opt.make import like, make
from hloc.opt.movement.walk import candidates, is_elementwise
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.shapes import ArrayShape


class SliceSinker(RewritingPass):
    """Compute f(a, b) once if f is applied to slices that cover a and b.

    `f(slice(a), slice(b))`, `f(slice'(a), slice'(b))` ... become slices of `f(a, b)`, if the parts
    have as many elements as a together, so that no work is added. One kernel in place of many.
    Not part of -O2: fusion puts a slice into the kernel that reads it, and the parts of a sum are
    computed at once as they are; parts that are results would be computed and then copied (half
    as fast again, measured). Cost: O(instructions).
    """

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Collect the groups of each computation, then rewrite those that pay."""
        groups: dict[tuple[Computation, Hashable], list[Instruction]] = {}
        for inst in candidates(module, context):
            if is_elementwise(inst) and _of_slices(inst):
                groups.setdefault((inst.computation, _key(inst)), []).append(inst)
        for group in groups.values():
            if context.spent:
                break
            if _covers(group):
                with context.rewriting(module, self.name):
                    _sink(group)


def _of_slices(inst: Instruction) -> bool:
    """True if all operands are equal slices of arrays of one size."""
    first = inst.operands[0]
    if first.opcode.name != "slice":
        return False
    for operand in inst.operands:
        if operand.opcode.name != "slice" or operand.attributes != first.attributes:
            return False
        if operand.operands[0].array.dims != first.operands[0].array.dims:
            return False
    return True


def _key(inst: Instruction) -> Hashable:
    sources = tuple(operand.operands[0].uid for operand in inst.operands)
    return inst.opcode.name, inst.attributes, inst.common.result_accuracy, sources, inst.array.dtype


def _covers(group: list[Instruction]) -> bool:
    """True for at least two parts, together no smaller than the whole; parts may overlap."""
    parts = {inst.operands[0].attributes.slice: inst for inst in group}
    whole = group[0].operands[0].operands[0].array.elements
    return len(parts) > 1 and sum(inst.array.elements for inst in parts.values()) >= whole


def _sink(group: list[Instruction]) -> None:
    first = group[0]
    computation = first.computation
    sources = [operand.operands[0] for operand in first.operands]
    shape = ArrayShape(first.array.dtype, sources[0].array.dims, sources[0].array.layout)
    whole = like(computation, first, *sources, shape=shape)
    for inst in group:
        parts = inst.operands[0].attributes.slice
        computation.replace(inst, make(computation, "slice", inst.shape, whole, slice=parts))
