"""Element rules of functions that are shorter where a select drops most of their results.

JAX writes the normal distribution as `select(|x| < 0.71, 1 + erf(x), ...)`: of erf, only the
polynomial near 0 is needed there, which has the same bits.
"""

from __future__ import annotations

from hloc.codegen.builder.index import Index
from hloc.codegen.builder.math import special
from hloc.codegen.builder.math.double import special as double_special
from hloc.codegen.builder.values import Value
from hloc.codegen.elements.elemental import ElementGenerator, Frame, Rule, operand_index, rule
from hloc.dtypes import F32, F64
from hloc.ir.instruction import Instruction
from hloc.opt.values import has_one_user, splat_value

_SMALL_ERF = {
    F32: (special.SMALL_END, special.small_erf),
    F64: (double_special.SMALL_END, double_special.small_erf),
}
"""The largest magnitude of an argument of a shorter form, and that form."""


@rule("erf")
def _erf(g: ElementGenerator, frame: Frame, inst: Instruction, index: Index) -> Rule:
    x = yield frame, inst.operands[0], (), operand_index(inst.operands[0], index)
    end, small_erf = _SMALL_ERF.get(inst.array.dtype, (0.0, None))
    if small_erf is not None and _is_selected_below(inst, end):
        return small_erf(g.b, x)
    assert inst.opcode.elemental is not None
    value: Value = inst.opcode.elemental(g.b, inst, x)
    return value


def _is_selected_below(function: Instruction, end: float) -> bool:
    """True if a select in the same kernel drops the results for NaN and beyond -end and end."""
    result = function
    while function.computation.is_fusion and has_one_user(result) and not result.is_root:
        (user,) = result.users
        if user.opcode.elemental is None:
            return False
        if user.is_a("select"):
            condition, chosen, other = user.operands
            is_chosen = chosen is result and result not in (condition, other)
            return is_chosen and _is_below(condition, function.operands[0], end)
        result = user
    return False


def _is_below(condition: Instruction, x: Instruction, end: float) -> bool:
    """True if `condition` is |x| < c or |x| <= c, with c below `end`."""
    if not condition.is_a("compare") or condition.attributes.direction not in ("LT", "LE"):
        return False
    left, right = condition.operands
    bound = splat_value(right)
    return left.is_a("abs") and left.operands[0] is x and bound is not None and bound < end
