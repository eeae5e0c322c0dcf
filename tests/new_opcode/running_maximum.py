"""running-maximum, a structural opcode: its row, and one emitter that both machines use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hloc.codegen.kernels.context import KernelContext, root_of
from hloc.codegen.kernels.emitter import Emitter, KernelPlan
from hloc.errors import HloError
from hloc.ir.attribute_fields import attr
from hloc.ir.example import Example
from hloc.ir.factors import FactorDraft
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import CallFunction, HostValue, Operands, ShapeRequest, define
from hloc.ops.shape_rules import array_operand
from hloc.ops.type_classes import check_type, is_float
from hloc.shapes import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningMaximumAttributes:
    """`initial` is the least value that any result has."""

    initial: int = attr("int", default=0)


def _infer(request: ShapeRequest) -> Shape:
    """Return the operand's shape, of at least one dimension."""
    operand = array_operand(request, 0)
    check_type(operand, is_float, "operand 0")
    if not operand.rank:
        raise HloError("running-maximum: operand 0 is a scalar, which has no last dimension")
    return operand


def _evaluate(inst: Instruction, operands: Operands, call: CallFunction) -> HostValue:
    running = np.maximum.accumulate(operands[0], axis=-1)
    return np.maximum(running, np.asarray(inst.attributes.initial, running.dtype))


def _factors(draft: FactorDraft, inst: Instruction) -> None:
    """Link all dimensions but the last, along which the maximum runs."""
    sizes = inst.array.dims
    draft.link(range(len(sizes) - 1), sizes)


RUNNING_MAXIMUM = define(
    reads="running-maximum(x)[..., i] = max(initial, x[..., 0], ..., x[..., i])",
    infer=_infer,
    attributes=RunningMaximumAttributes,
    evaluate=_evaluate,
    factors=_factors,
    example=Example("x = T[2,4] parameter(0)\nROOT r = T[2,4] running-maximum(x), initial=1"),
)


def _plan(inst: Instruction) -> KernelPlan[KernelContext] | None:
    root = root_of(inst)
    if root.opcode is not RUNNING_MAXIMUM:
        return None
    dims = root.array.dims
    return KernelPlan(_emit, dims[0] if len(dims) > 1 else 1)


def _emit(k: KernelContext) -> None:
    *outer, size = k.root.array.dims
    dtype = k.root.array.dtype
    best = k.b.allocate(dtype)
    with k.body.nest(outer, range(len(outer)), (k.begin, k.end)) as at:
        k.b.store(best, 0, k.b.const(dtype, float(k.root.attributes.initial)))
        with k.body.loop(0, size) as i:
            x = k.read(k.root.operands[0], (*at, i))
            value = k.b.intrinsic("maximum", k.b.load(best, dtype, 0), x)
            k.b.store(best, 0, value)
            k.outputs[0].store(k.math, (*at, i), value)


EMITTER = Emitter("running-maximum", _plan)
