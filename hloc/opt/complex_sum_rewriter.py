"""Replace sums of complex numbers by the sums of their parts."""

from __future__ import annotations

from hloc.analysis.cumulative import cumulative
from hloc.dtypes import component_of
from hloc.ir.instruction import Instruction
from hloc.ops.builder import Builder
from hloc.ops.folding import recognised_reducer
from hloc.opt.expander import Expander, is_static
from hloc.shapes import ArrayShape


class ComplexSumRewriter(Expander):
    """Sum real and imaginary parts apart: there are kernels for sums of floats.

    Applies to reduces and to running sums. Both sums become one kernel again (`fusion`). Other
    windows stay: their sums of complex numbers share a loop. Cost: O(1) per reduction.
    """

    acts_on = frozenset({"reduce", "reduce-window"})

    def when(self, inst: Instruction) -> bool:
        if not isinstance(inst.shape, ArrayShape) or not inst.shape.dtype.is_complex:
            return False
        if recognised_reducer(inst.called[0]) != "add" or not is_static(inst):
            return False
        return inst.is_a("reduce") or cumulative(inst) is not None

    def expand(self, inst: Instruction) -> Instruction:
        b, part = Builder(inst.computation), component_of(inst.array.dtype)
        add = b.scalar_function("add", part)
        sums = [
            b.computation.add(
                inst.opcode,
                inst.array.with_dtype(part),
                [_part(b, opcode, operand) for operand in inst.operands],
                inst.attributes,
                (add,),
            )
            for opcode in ("real", "imag")
        ]
        return b.complex(*sums)


def _part(b: Builder, opcode: str, x: Instruction) -> Instruction:
    """Return the real or imaginary parts of `x`, in its layout."""
    return b.instruction(opcode, (x,), shape=x.array.with_dtype(component_of(x.array.dtype)))
