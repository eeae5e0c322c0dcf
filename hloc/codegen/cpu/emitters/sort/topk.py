"""topk: the first elements of every row in total order, ties by place.

A few elements of a long row are selected before they are sorted: the leading digits of all keys are
counted, and only elements up to the digit in which number k lies go on. Types whose order routines
know are left to these (`topk_calls`), where kernels are LLVM IR.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.cpu.emitters.sort.merge_sort import MergeSorter
from hloc.codegen.cpu.emitters.sort.radix_sort import Digits, RadixSorter
from hloc.codegen.cpu.emitters.sort.sort_rows import SortRows, rows_bytes
from hloc.codegen.kernels.context import KernelContext, root_of
from hloc.codegen.kernels.emitter import Emitter, KernelPlan
from hloc.codegen.kernels.order_key import key_dtype, order_key
from hloc.codegen.llvm.routine import FINAL_WITH_SLOTS
from hloc.dtypes import S32, S64, U32, DType
from hloc.ir.instruction import Instruction

_LEAST_SELECTED = 96
"""Fewest elements of a row that is selected and sorted by digits."""

_WORTH = 4
"""A selection is made if it keeps at most one element in this number."""


@dataclass(frozen=True, slots=True)
class _RowForm:
    """What moves in a row, values and their places, and the digits it is sorted by."""

    carried: tuple[DType, DType]
    digits: Digits
    leading_bits: int


def plan(inst: Instruction) -> KernelPlan[KernelContext] | None:
    """Plan a topk: scratch memory for two rows of values and places, and for the counts."""
    root = root_of(inst)
    operand = root.operands[0].array
    *outer, size = operand.dims
    bits = key_dtype(operand.dtype).bits
    form = _RowForm((operand.dtype, S32), Digits((bits,), 8), min(11, bits))
    counts = form.digits.count_bytes + (U32.storage_bytes << form.leading_bits)
    scratch = rows_bytes(form.carried, size) + counts
    return KernelPlan(partial(_emit, form), outer[0] if outer else 1, scratch)


def _emit(form: _RowForm, k: KernelContext) -> None:
    """Sort row by row; the sort is stable, so lower places come first."""
    operand = k.root.operands[0]
    *outer, size = operand.array.dims
    rows = SortRows(k, form.carried, size)
    with k.body.nest(outer, range(len(outer)), (k.begin, k.end)) as at:
        if size < _LEAST_SELECTED:
            _merge(k, rows, at)
        else:
            _select(k, form, rows, at)
        arrays = rows.buffers(rows.half)
        with k.body.loop(0, k.root.attributes.k) as i:
            for output, value in zip(k.outputs, rows.load(arrays, i), strict=True):
                output.store(k.math, (*at, i), value)


def _key(k: KernelContext, value: Value) -> Value:
    return order_key(k.b, value, total=True, descending=k.root.attributes.largest)


def _place(k: KernelContext, i: IndexValue) -> Value:
    return k.b.convert(k.math.value(i), S32)


def _merge(k: KernelContext, rows: SortRows, at: Sequence[IndexValue]) -> None:
    """Sort a whole row by comparisons."""

    def less(left: Sequence[Value], right: Sequence[Value]) -> Value:
        return k.b.compare("LT", _key(k, left[0]), _key(k, right[0]))

    arrays = rows.buffers(0)
    with k.body.loop(0, rows.size) as i:
        rows.store(arrays, i, [k.read(k.root.operands[0], (*at, i)), _place(k, i)])
    MergeSorter(rows, less).sort()


def _select(k: KernelContext, form: _RowForm, rows: SortRows, at: Sequence[IndexValue]) -> None:
    """Bring the elements that may be among the first into half 0, and sort them."""
    b, m = k.b, k.math
    digits, bits = form.digits, form.leading_bits
    offset = 2 * rows.half_bytes
    sorter = RadixSorter(rows, digits, lambda values: [_key(k, values[0])], offset)
    sorter.clear()
    kept = b.allocate(S64)
    b.store(kept, 0, b.const(S64, 0))
    arrays = rows.buffers(0)
    selects = k.root.attributes.k * _WORTH <= rows.size
    last = _last_digit(k, bits, at, offset + digits.count_bytes) if selects else None
    with k.body.loop(0, rows.size) as i:
        value = k.read(k.root.operands[0], (*at, i))
        wanted = k.body.all_of([])
        if last is not None:
            wanted = m.compare("LE", _leading(k, bits, value), last)
        with k.body.when(wanted):
            place = b.load(kept, S64, 0)
            rows.store(arrays, place, [value, _place(k, i)])
            sorter.count([value])
            b.store(kept, 0, m.value(m.add(place, 1)))
    sorter.sort(b.load(kept, S64, 0))
    k.level = FINAL_WITH_SLOTS


def _leading(k: KernelContext, bits: int, value: Value) -> Value:
    """Return the first `bits` bits of the key of an element."""
    key = _key(k, value)
    shift = k.b.const(key.dtype, key.dtype.bits - bits)
    return k.b.convert(k.b.lshr(key, shift), S64)


def _last_digit(k: KernelContext, bits: int, at: Sequence[IndexValue], offset_bytes: int) -> Value:
    """Return the leading digit of element number k of the row in order."""
    b, m = k.b, k.math
    counts = k.scratch_array(offset_bytes, U32, (1 << bits,))
    b.clear(counts.pointer, U32.storage_bytes * counts.dims[0])
    with k.body.loop(0, k.root.operands[0].array.dims[-1]) as i:
        digit = _leading(k, bits, k.read(k.root.operands[0], (*at, i)))
        counts.store(m, (digit,), b.iadd(counts.load(m, (digit,)), b.const(U32, 1)))
    digit_slot, total_slot = b.allocate(S64), b.allocate(S64)
    b.store(digit_slot, 0, b.const(S64, 0))
    b.store(total_slot, 0, b.convert(counts.load(m, (0,)), S64))
    with k.body.repeat_while() as head:
        total = b.load(total_slot, S64, 0)
        head.go_on_if(m.compare("LT", total, k.root.attributes.k))
        following = m.add(b.load(digit_slot, S64, 0), 1)
        b.store(digit_slot, 0, m.value(following))
        here = b.convert(counts.load(m, (following,)), S64)
        b.store(total_slot, 0, b.iadd(total, here))
    return b.load(digit_slot, S64, 0)


EMITTER = Emitter("topk", plan, roots=("topk",))
