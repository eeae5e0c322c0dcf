"""topk by calls of routines that find the first elements of one row."""

from __future__ import annotations

from functools import partial
from math import prod

from hloc.codegen.cpu.cpu_plan import CpuPlan
from hloc.codegen.cpu.emitters.sort.topk_in_lanes import plan_in_lanes
from hloc.codegen.cpu.emitters.sort.topk_routines import (
    FirstForm,
    first_form,
    topk_bytes,
    topk_routines,
)
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.emitter import KernelPlan
from hloc.ir.instruction import Instruction


def plan(inst: Instruction) -> KernelPlan[KernelContext] | None:
    """Plan a topk whose order routines support, row by row."""
    operand = inst.operands[0].array
    *outer, size = operand.dims
    form = first_form(operand.dtype, largest=inst.attributes.largest)
    if form is None or size >= 1 << 31:  # positions are s32
        return None
    return CpuPlan(
        partial(_emit, form),
        prod(outer),
        topk_bytes(form.bits, size),
        rows_in_lanes=partial(plan_in_lanes, inst),
    )


def _emit(form: FirstForm, k: KernelContext) -> None:
    """Emit the loop over rows, with a call of the routine for each."""
    source = k.plain_array(k.root.operands[0])
    assert source is not None
    *outer, size = source.dims
    own, inner = topk_routines(form.bits, k.target)
    for routines in (own, inner):
        k.use(routines)
    numbers = ", ".join(f"i{form.bits} {number}" for number in (form.sign, form.flip))
    sizes = f"i64 {size}, i64 {k.root.attributes.k}, {numbers}"
    with k.body.loop(k.begin, k.end) as row:
        at = (*k.math.delinear(row, outer), 0)
        rows = []
        for array in (source, *k.outputs):
            first = k.math.value(k.math.linear(at, array.strides))
            pointer = k.b.address(array.pointer, array.dtype, first)
            rows.append(f"ptr {pointer}, i64 {array.strides[-1]}")
        k.fn.line(f"call void @{form.name}({', '.join(rows)}, ptr {k.scratch.text}, {sizes})")
    k.level = 0
