"""Compute a narrow float type in f32, with converts around each instruction."""

from __future__ import annotations

from hloc.analysis.call_graph import control_flow_computations
from hloc.dtypes import F32
from hloc.errors import HloError
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.ops import OPCODES
from hloc.ops.builder import Builder
from hloc.ops.folding import recognised_reducer
from hloc.opt.expander import expand_all, is_static
from hloc.opt.library.types.change_op_data_type import computed_in
from hloc.opt.library.types.type_names import float_named
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.shapes import ArrayShape

_NOT_ARITHMETIC = frozenset(
    {"bitcast-convert", "convert", "copy", "reduce-precision", "select", "stochastic-convert"}
)
"""Elementwise opcodes that only move values, or change types."""

_FOLDS = ("reduce", "reduce-window")


@dataclass(frozen=True)
class FloatNormalization(RewritingPass):
    """Compute every opcode on floats of `type` in f32, rounding each result.

    Elementwise opcodes, dot, convolution, and reductions by a plain operation, which sum in f32 and
    round once. Opcodes that only move values keep the type. Exact: hloc computes narrow floats like
    that in any case. Cost: O(instructions). Not in -O2: code generation does it without
    instructions. Source: XLA's pass of this name.
    """

    type: str = "bf16"

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Normalise in every computation.

        Raises:
            HloError: `type` is not a float narrower than f32.
        """
        dtype = float_named(self.name, self.type)
        if dtype.bits >= 32:
            raise HloError(f"pass {self.name} needs a type narrower than f32, but got {dtype}")

        running = frozenset(control_flow_computations(module))

        def is_narrow(inst: Instruction) -> bool:
            floats = [i.array.dtype for i in (inst, *inst.operands) if i.array.dtype.is_float]
            return (
                inst.computation in running
                and is_static(inst)
                and dtype in floats
                and all(found.bits <= 32 for found in floats)
            )

        def is_fold(inst: Instruction) -> bool:
            return (
                inst.computation in running
                and is_static(inst)
                and recognised_reducer(inst.called[0]) not in ("", "second")
                and all(
                    isinstance(i.shape, ArrayShape) and i.shape.dtype is dtype
                    for i in (inst, *inst.operands)
                )
            )

        expand_all(
            module,
            context,
            self.name,
            _arithmetic(),
            lambda inst: computed_in(inst, F32),
            is_narrow,
        )
        expand_all(module, context, self.name, _FOLDS, _folded_wide, is_fold)


def _arithmetic() -> tuple[str, ...]:
    """Return the elementwise opcodes, and those that contract arrays."""
    elementwise = (
        name
        for name, row in OPCODES.items()
        if row.elementwise and not row.calls and name not in _NOT_ARITHMETIC
    )
    return (*elementwise, "dot", "convolution")


def _folded_wide(inst: Instruction) -> Instruction:
    """Add a reduction in f32 by the same operation, and convert its result."""
    b = Builder(inst.computation)
    kind = recognised_reducer(inst.called[0])
    reducer = b.scalar_function(kind, F32, f"{kind}_f32")
    operands = [b.convert(operand, F32) for operand in inst.operands]
    wide = inst.computation.add(
        inst.opcode,
        inst.array.with_dtype(F32),
        operands,
        inst.attributes,
        (reducer,),
        common=inst.common,
    )
    return b.convert(wide, inst.array.dtype)
