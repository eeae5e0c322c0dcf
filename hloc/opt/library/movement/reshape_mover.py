"""Move reshapes and transposes below elementwise instructions."""

from __future__ import annotations

from collections.abc import Hashable

from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.opt.make import like, splat
from hloc.opt.movement.walk import candidates, is_elementwise
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.opt.values import has_one_user, splat_value
from hloc.shapes import ArrayShape


class ReshapeMover(RewritingPass):
    """Sink a reshape or transpose shared by all operands below an elementwise instruction.

    `f(transpose(a), transpose(b))` becomes `transpose(f(a, b))`; splat constants and scalars do not
    count. Reshapes and transposes with other users stay. Run the algebraic simplifier afterwards:
    the rearrangements that come together may cancel. Not part of -O2: a row-major reshape moves no
    bytes, and fusion reads transposed operands where they are (the sum of two transposes took the
    same time either way). Cost: O(instructions).
    """

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Move down through each chain, operands before users."""
        for inst in candidates(module, context):
            model = _rearrangement(inst) if is_elementwise(inst) else None
            if model is not None:
                with context.rewriting(module, self.name):
                    _move_below(inst, model)


def _rearrangement(inst: Instruction) -> Instruction | None:
    """Return the reshape or transpose that all operands share, except splats and scalars."""
    model: Instruction | None = None
    for operand in inst.operands:
        if operand.array.is_scalar or splat_value(operand) is not None:
            continue
        if operand.opcode.name not in ("reshape", "transpose") or not has_one_user(operand):
            return None
        if operand.control_predecessors or operand.operands[0].array.dynamic:
            return None
        if model is not None and _key(operand) != _key(model):
            return None
        model = operand
    return model


def _key(inst: Instruction) -> Hashable:
    source = inst.operands[0].array
    return inst.opcode.name, inst.attributes, source.dims, inst.array.dims


def _move_below(inst: Instruction, model: Instruction) -> None:
    computation, source = inst.computation, model.operands[0].array
    operands: list[Instruction] = []
    for operand in inst.operands:
        value = splat_value(operand)
        if operand.array.is_scalar:
            operands.append(operand)
        elif value is not None:
            operands.append(splat(computation, ArrayShape(operand.array.dtype, source.dims), value))
        else:
            operands.append(operand.operands[0])
    shape = ArrayShape(inst.array.dtype, source.dims, source.layout)
    result = like(computation, inst, *operands, shape=shape)
    computation.replace(inst, like(computation, model, result, shape=inst.shape))
