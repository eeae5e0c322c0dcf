"""Expand stochastic-convert into a comparison with the random bits."""

from __future__ import annotations

from hloc.ir.instruction import Instruction
from hloc.ops.builder import Builder
from hloc.opt.expander import Expander, is_static, working_type


class StochasticConvertDecomposer(Expander):
    """Replace `stochastic-convert(x, bits)` by floor, comparison and convert.

    |x| is rounded up where the random bits, as a fraction, are below the fraction of |x|. Exact.
    Cost: O(1) instructions each. Not in -O2: the rule for stochastic-convert emits just that.
    Source: XLA's pass of this name.
    """

    acts_on = frozenset({"stochastic-convert"})

    def when(self, inst: Instruction) -> bool:
        return is_static(inst)

    def expand(self, inst: Instruction) -> Instruction:
        b, dims = Builder(inst.computation), inst.array.dims
        x, random = inst.operands
        wide, bits = working_type(x.array.dtype), random.array.dtype
        x = b.convert(x, wide)
        size = b.abs(x)
        whole = b.instruction("floor", (size,))
        scale = b.broadcast(b.constant(2.0**bits.bits, wide), dims)
        threshold = b.convert(b.multiply(b.subtract(size, whole), scale), bits)
        zero, one = (b.broadcast(b.constant(value, wide), dims) for value in (0, 1))
        step = b.select(b.compare(random, threshold, "LT"), one, zero)
        rounded = b.add(whole, step)
        signed = b.select(b.compare(x, zero, "LT"), b.negate(rounded), rounded)
        return b.convert(signed, inst.array.dtype)
