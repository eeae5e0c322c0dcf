"""Compute chosen opcodes in another float type."""

from __future__ import annotations

from hloc.dtypes import DType
from hloc.errors import HloError
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.ops import OPCODES
from hloc.ops.builder import Builder
from hloc.opt.expander import expand_all, is_static
from hloc.opt.library.types.type_names import float_named
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.shapes import ArrayShape


@dataclass(frozen=True)
class ChangeOpDataType(RewritingPass):
    """Let `opcodes` whose operands and result are `from_type` compute in `to_type`.

    `opcodes` are names joined by `+`; they are elementwise, dot or convolution. Exact for a wider
    type, since hloc computes narrow floats in f32 in any case. A narrower type rounds the operands:
    that is what was asked for. Cost: O(instructions). Not in -O2: kernels widen as they read.
    Source: XLA's pass of this name.
    """

    from_type: str = "f16"
    to_type: str = "f32"
    opcodes: str = "dot+convolution"

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Change in every computation.

        Raises:
            HloError: an unknown type, or an unsupported opcode.
        """
        old, new = (float_named(self.name, name) for name in (self.from_type, self.to_type))
        names = tuple(self.opcodes.split("+"))
        for name in names:
            row = OPCODES.get(name)
            if row is None or not (row.elementwise or name in ("dot", "convolution")):
                raise HloError(
                    f"pass {self.name} takes elementwise opcodes, dot and convolution, not {name!r}"
                )

        def is_old(inst: Instruction) -> bool:
            return is_static(inst) and all(
                isinstance(i.shape, ArrayShape) and i.shape.dtype is old
                for i in (inst, *inst.operands)
            )

        if old is not new:
            expand_all(
                module, context, self.name, names, lambda inst: computed_in(inst, new), is_old
            )


def computed_in(inst: Instruction, dtype: DType) -> Instruction:
    """Add `inst` on operands converted to `dtype`, and convert a float result back."""
    b, old = Builder(inst.computation), inst.array.dtype
    operands = [
        b.convert(operand, dtype) if operand.array.dtype.is_float else operand
        for operand in inst.operands
    ]
    shape = ArrayShape(dtype if old.is_float else old, inst.array.dims, inst.array.layout)
    wide = inst.computation.add(
        inst.opcode, shape, operands, inst.attributes, inst.called, common=inst.common
    )
    return b.convert(wide, old)
