"""Shorten chains of converts between floats."""

from __future__ import annotations

from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.opt.make import make
from hloc.opt.movement.walk import candidates
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.opt.rules.convert import holds_all_of
from hloc.opt.values import is_float


class SimplifyFpConversions(RewritingPass):
    """Remove converts to a wider float that the next convert undoes.

    bf16 -> f32 -> bf16 is nothing, bf16 -> f64 -> f32 is one convert: exact. Under fast_math the
    way through a narrower float goes too (f32 -> bf16 -> f32), which keeps more bits than the text
    asks for, as XLA's excess precision does. Leaves what it skips dead. Cost: O(instructions).
    """

    acts_on = frozenset({"convert"})

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Shorten chains everywhere, operands first, so that each is visited once."""
        for inst in candidates(module, context, "convert"):
            source = _source(inst, any_precision=context.fast_math)
            if source is None:
                continue
            with context.rewriting(module, self.name):
                computation = inst.computation
                new = source
                if source.shape != inst.shape:
                    new = make(computation, "convert", inst.shape, source)
                computation.replace(inst, new)


def _source(inst: Instruction, *, any_precision: bool) -> Instruction | None:
    """Return the instruction that `inst` may convert directly, instead of its operand."""
    (between,) = inst.operands
    if between.opcode.name != "convert" or not (is_float(inst) and is_float(between)):
        return None
    (start,) = between.operands
    if not is_float(start) or start.array.dynamic:
        return None
    if start.array.dtype is inst.array.dtype and start.shape != inst.shape:
        return None  # another layout
    exact = holds_all_of(between.array.dtype, start.array.dtype)
    return start if exact or any_precision else None
