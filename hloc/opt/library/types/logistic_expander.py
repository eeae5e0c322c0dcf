"""Expand logistic into its formula."""

from __future__ import annotations

from hloc.ir.instruction import Instruction
from hloc.ops.builder import Builder
from hloc.opt.expander import Expander, is_static, working_type


class LogisticExpander(Expander):
    """Replace `logistic(x)` of floats by `1 / (1 + exp(-x))`, narrow floats in f32.

    Three roundings instead of one: some units in the last place. Cost: O(instructions). Not in -O2:
    hloc has a rule for logistic that is as fast and closer. Source: XLA's pass of this name.
    """

    acts_on = frozenset({"logistic"})

    def when(self, inst: Instruction) -> bool:
        return is_static(inst) and inst.array.dtype.is_float

    def expand(self, inst: Instruction) -> Instruction:
        b, dtype = Builder(inst.computation), inst.array.dtype
        wide = working_type(dtype)
        x = b.convert(inst.operands[0], wide)
        one = b.broadcast(b.constant(1, wide), inst.array.dims)
        result = b.divide(one, b.add(one, b.exponential(b.negate(x))))
        return b.convert(result, dtype)
