"""Convolutions of small groups with elementwise epilogues, computed while sums are in the cache.

The sums of a line along the last spatial dimension are accumulated in a result of the same type;
then the epilogue is computed for them.
"""

from __future__ import annotations

from functools import partial

from hloc.analysis.epilogue import product_in
from hloc.codegen.cpu.emitters.convolution.direct_convolution import Loops, loops_of
from hloc.codegen.cpu.emitters.convolution.grouped_convolution import call_grouped, group_form
from hloc.codegen.cpu.emitters.convolution.grouped_routine import GroupForm
from hloc.codegen.cpu.emitters.gemm.packed.row_epilogue import row_epilogue
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.emitter import Emitter, KernelPlan
from hloc.ir.instruction import Instruction

_LEAST_VECTOR_BITS = 128
"""Vectors of every machine have at least this many bits; the plan is the same for all."""


def core_of(inst: Instruction) -> Instruction | None:
    """Return the convolution of a fusion that this emitter can write, else None."""
    found = _grouped(inst)
    return found[0] if found else None


def _grouped(inst: Instruction) -> tuple[Instruction, GroupForm] | None:
    """Return the convolution of a fusion, and the routine that computes it."""
    if inst.opcode.name != "fusion":
        return None
    core = product_in(inst.called[0])
    if core is None or not core.is_a("convolution"):
        return None
    if not all(operand.is_a("parameter") for operand in core.operands):
        return None
    lhs, rhs = (operand.array for operand in core.operands)
    form = group_form(core, lhs, rhs, _LEAST_VECTOR_BITS)
    return (core, form) if form else None


def plan(inst: Instruction) -> KernelPlan[KernelContext] | None:
    """Plan a fusion around a convolution of small groups as the convolution alone."""
    found = _grouped(inst)
    if found is None:
        return None
    loops = loops_of(found[0])
    return KernelPlan(partial(_emit, *found, loops), loops.extent(found[0]))


def _emit(core: Instruction, form: GroupForm, loops: Loops, k: KernelContext) -> None:
    """Emit the convolution with the loops over its finished lines."""
    labels = core.attributes.dim_labels
    features = core.array.dims[labels.output_feature]
    step = k.outputs[0].strides[labels.output_spatial[-1]] if labels.output_spatial else features
    epilogue = row_epilogue(k, core, features, features, step)
    lhs, rhs = (k.plain_array(operand) for operand in core.operands)
    assert lhs is not None
    assert rhs is not None
    call_grouped(k, form, core, (lhs, rhs), loops.shared, epilogue)


EMITTER = Emitter("grouped-epilogue", plan)
"""A convolution of small groups and the elementwise instructions that use it."""
