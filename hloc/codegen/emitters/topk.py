"""topk: every row is sorted in total order, ties by place, and its first elements are kept."""

from __future__ import annotations

from collections.abc import Sequence

from hloc.codegen.emitters.context import Emitter, KernelContext, no_split, root_of
from hloc.codegen.emitters.sort import Comparator, RowSorter, row_bytes
from hloc.codegen.scalar_builder import LlvmBuilder
from hloc.codegen.values import Value
from hloc.dtypes import DTYPES, F32, S32
from hloc.ir.instruction import Instruction


def can_emit(inst: Instruction) -> bool:
    """True if the result is that of a topk."""
    return root_of(inst).opcode.name == "topk"


def scratch_bytes(inst: Instruction) -> int:
    """Return two rows of values and of places."""
    shape = root_of(inst).operands[0].array
    return 2 * (row_bytes(shape.dtype, shape.dims[-1]) + row_bytes(S32, shape.dims[-1]))


def emit(k: KernelContext) -> None:
    """Sort row by row; the sort is stable, so lower places come first."""
    operand = k.root.operands[0]
    *outer, size = operand.array.dims
    sorter = RowSorter(k, (operand.array.dtype, S32), size, _comparator(k))
    with k.body.nest(outer, range(len(outer))) as at:
        rows = sorter.buffers(0)
        with k.body.loop(0, size) as i:
            rows[0].store(k.math, (i,), k.read(operand, (*at, i)))
            rows[1].store(k.math, (i,), k.b.convert(k.math.value(i), S32))
        sorter.make_runs(rows)
        sorter.merge_runs()
        rows = sorter.buffers(sorter.half)
        with k.body.loop(0, k.root.attributes.k) as i:
            for array, output in zip(rows, k.outputs, strict=True):
                output.store(k.math, (*at, i), array.load(k.math, (i,)))


def _comparator(k: KernelContext) -> Comparator:
    """Return the order of the result: larger (or smaller) keys first."""

    def less(left: Sequence[Value], right: Sequence[Value]) -> Value:
        x, y = _key(k.b, left[0]), _key(k.b, right[0])
        return k.b.compare("GT" if k.root.attributes.largest else "LT", x, y)

    return less


def _key(b: LlvmBuilder, x: Value) -> Value:
    """Return integers in total order, -NaN < -inf < -0 < +0 < inf < NaN, for floats."""
    if not x.dtype.is_float:
        return x
    if x.dtype.bits < 8 or not x.dtype.has_sign:  # every value is in f32
        x = b.convert(x, F32)
    dtype = x.dtype
    bits = b.bitcast(x, DTYPES[f"s{dtype.bits}"])
    negative = b.ashr(bits, b.const(bits.dtype, dtype.bits - 1))
    return b.xor(bits, b.and_(negative, b.const(bits.dtype, (1 << (dtype.bits - 1)) - 1)))


EMITTER = Emitter("topk", can_emit, emit, no_split, scratch_bytes)
