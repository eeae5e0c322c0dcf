"""Expand total-order comparisons of floats into integer comparisons."""

from __future__ import annotations

from hloc.dtypes import DTYPES, F32
from hloc.ir.instruction import Instruction
from hloc.ops.builder import Builder
from hloc.opt.expander import Expander, is_static


class ComparisonExpander(Expander):
    """Replace `compare(x, y), type=TOTALORDER` of floats by a comparison of keys.

    The key of x is its bits as a signed integer if that is not negative, else the bits with all but
    the sign turned over: -NaN < -inf < -0 < 0 < inf < NaN. `f8e8m0fnu` has no sign, and types below
    a byte go through f32. Exact. Cost: O(instructions). Not in -O2: the rule for compare emits just
    that. Source: XLA's pass of this name.
    """

    acts_on = frozenset({"compare"})

    def when(self, inst: Instruction) -> bool:
        x, y = inst.operands
        return (
            inst.attributes.type == "TOTALORDER"
            and x.array.dtype is y.array.dtype
            and x.array.dtype.is_float
            and is_static(inst)
        )

    def expand(self, inst: Instruction) -> Instruction:
        b = Builder(inst.computation)
        x, y = (_key(b, operand) for operand in inst.operands)
        return b.compare(x, y, inst.attributes.direction)


def _key(b: Builder, x: Instruction) -> Instruction:
    if x.array.dtype.bits < 8:
        x = b.convert(x, F32)
    dtype = x.array.dtype
    integer = DTYPES[f"{'s' if dtype.has_sign else 'u'}{dtype.bits}"]
    bits = b.instruction("bitcast-convert", (x,), shape=x.array.with_dtype(integer))
    if not dtype.has_sign:
        return bits
    dims = bits.array.dims
    zero = b.broadcast(b.constant(0, integer), dims)
    largest = b.broadcast(b.constant(2 ** (dtype.bits - 1) - 1, integer), dims)
    turned = b.logical_xor(bits, largest)
    return b.select(b.compare(bits, zero, "LT"), turned, bits)
