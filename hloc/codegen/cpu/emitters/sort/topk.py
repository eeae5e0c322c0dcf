"""topk of types below a byte, which have no routine: whole rows are sorted by comparisons."""

from __future__ import annotations

from collections.abc import Sequence

from hloc.codegen.builder.values import Value
from hloc.codegen.cpu.emitters.sort.merge_sort import MergeSorter
from hloc.codegen.cpu.emitters.sort.sort_rows import SortRows, rows_bytes
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.emitter import KernelPlan
from hloc.codegen.kernels.order_key import order_key
from hloc.dtypes import S32
from hloc.ir.instruction import Instruction


def plan(inst: Instruction) -> KernelPlan[KernelContext] | None:
    """Plan a topk: scratch memory for two rows of values and positions."""
    operand = inst.operands[0].array
    *outer, size = operand.dims
    if size >= 1 << 31:  # positions are s32
        return None
    return KernelPlan(_emit, outer[0] if outer else 1, rows_bytes((operand.dtype, S32), size))


def _emit(k: KernelContext) -> None:
    """Sort row by row; the sort is stable, so lower positions come first."""
    (operand,) = k.root.operands
    *outer, size = operand.array.dims
    rows = SortRows(k, (operand.array.dtype, S32), size)

    def less(left: Sequence[Value], right: Sequence[Value]) -> Value:
        keys = (
            order_key(k.b, x[0], total=True, descending=k.root.attributes.largest)
            for x in (left, right)
        )
        return k.b.compare("LT", *keys)

    with k.body.nest(outer, range(len(outer)), (k.begin, k.end)) as at:
        arrays = rows.buffers(0)
        with k.body.loop(0, size) as i:
            rows.store(arrays, i, [k.read(operand, (*at, i)), k.b.convert(k.math.value(i), S32)])
        MergeSorter(rows, less).sort()
        arrays = rows.buffers(rows.half)
        with k.body.loop(0, k.root.attributes.k) as i:
            for output, value in zip(k.outputs, rows.load(arrays, i), strict=True):
                output.store(k.math, (*at, i), value)
