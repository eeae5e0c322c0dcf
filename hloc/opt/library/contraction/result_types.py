"""Element types of dots and convolutions: upcast operands, cast results."""

from __future__ import annotations

from hloc.dtypes import DType
from hloc.ir.instruction import Instruction
from hloc.ops.builder import Builder
from hloc.ops.checks import wider
from hloc.opt.expander import Expander, is_static
from hloc.shapes import ArrayShape

_OPCODES = ("dot", "convolution")


class OperandUpcaster(Expander):
    """Convert operands of dots and convolutions to a wider type of the result: s8 by s8 to s32.

    Exact: the wider type holds every value, and products are summed in the result type in any case.
    Cost: O(instructions), and wide copies of the operands where nothing fuses them. Not in -O2:
    hloc's kernels widen as they read. Source: XLA's pass of this name.
    """

    acts_on = frozenset(_OPCODES)

    def when(self, inst: Instruction) -> bool:
        dtype = inst.array.dtype
        operands = [operand.array.dtype for operand in inst.operands]
        return (
            len(inst.operands) == 2
            and is_static(inst)
            and all(_holds(dtype, operand) for operand in operands)
            and any(operand is not dtype for operand in operands)
            and "packed_nibble" not in inst.attributes.operand_precision
        )

    def expand(self, inst: Instruction) -> Instruction:
        b = Builder(inst.computation)
        operands = [b.convert(operand, inst.array.dtype) for operand in inst.operands]
        return inst.computation.add(
            inst.opcode, inst.shape, operands, inst.attributes, common=inst.common
        )


class ResultCaster(Expander):
    """Compute dots and convolutions in the wider operand type, and convert the result.

    `dot(f32, f32)` written as bf16 becomes an f32 dot and a convert: one rounding as before.
    Integers wrap alike. Cost: O(instructions). Not in -O2: it adds a convert. Source: XLA's pass of
    this name.
    """

    acts_on = frozenset(_OPCODES)

    def when(self, inst: Instruction) -> bool:
        dtype, inferred = inst.array.dtype, _inferred(inst)
        return is_static(inst) and dtype is not inferred and _holds(inferred, dtype)

    def expand(self, inst: Instruction) -> Instruction:
        b = Builder(inst.computation)
        shape = ArrayShape(_inferred(inst), inst.array.dims, inst.array.layout)
        wide = inst.computation.add(
            inst.opcode, shape, inst.operands, inst.attributes, common=inst.common
        )
        return b.convert(wide, inst.array.dtype)


def _inferred(inst: Instruction) -> DType:
    lhs, rhs = inst.operands
    return wider(lhs.array.dtype, rhs.array.dtype)


def _holds(wide: DType, narrow: DType) -> bool:
    """True if every value of `narrow` is one of `wide`."""
    if wide is narrow:
        return True
    if wide.is_float and narrow.is_float:
        return (
            wide.exponent_bits >= narrow.exponent_bits and wide.mantissa_bits > narrow.mantissa_bits
        )
    if wide.is_integer and narrow.is_integer:
        same_sign = wide.is_signed == narrow.is_signed
        return wide.bits > narrow.bits and (same_sign or wide.is_signed)
    return False
