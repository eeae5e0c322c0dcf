"""Sort: every row is copied into scratch memory, sorted there, and written back.

Comparators that compare keys become a radix sort; all others, and short rows, a merge sort. Sorts
whose keys are operands have routines (`sort_calls`) where kernels are LLVM IR.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from hloc.codegen.builder.index import loop_order
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.cpu.emitters.sort.merge_sort import MergeSorter
from hloc.codegen.cpu.emitters.sort.radix_sort import Digits, KeyFunction, RadixSorter, digits_for
from hloc.codegen.cpu.emitters.sort.sort_rows import SortRows, rows_bytes
from hloc.codegen.elements.elemental import Frame
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.emitter import KernelPlan
from hloc.codegen.kernels.order_key import key_dtype, order_key
from hloc.dtypes import S64, DType
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.ops.comparators import Key, keys_of

_LEAST_PER_BIT = 1
"""Fewest elements per bit of the keys for which a radix sort is faster than a merge sort."""

_MOST_CARRIED_BYTES = 16
"""Most bytes of operands that are moved themselves; otherwise keys and positions are moved."""


@dataclass(frozen=True, slots=True)
class _RadixPlan:
    """A radix sort of the rows of an instruction.

    Attributes:
        carried: types of the moved values: the operands, or keys and positions if `by_place`.
    """

    keys: tuple[Key, ...]
    digits: Digits
    carried: tuple[DType, ...]
    by_place: bool


def plan(inst: Instruction) -> KernelPlan[KernelContext] | None:
    """Plan a sort: scratch memory for two rows of the moved values, and for radix counts."""
    radix, shape = _radix_plan(inst), inst.operands[0].array
    dim = inst.attributes.dimensions[0]
    outer = [d for d in loop_order(shape) if d != dim]
    carried = radix.carried if radix else [operand.array.dtype for operand in inst.operands]
    scratch = rows_bytes(carried, _size(inst)) + (radix.digits.count_bytes if radix else 0)
    return KernelPlan(partial(_emit, radix, outer), shape.dims[outer[0]] if outer else 1, scratch)


def _size(root: Instruction) -> int:
    dim: int = root.attributes.dimensions[0]
    return root.operands[0].array.dims[dim]


def _radix_plan(root: Instruction) -> _RadixPlan | None:
    """Return the radix sort of the rows, None for a merge sort."""
    size = _size(root)
    keys = keys_of(root.called[0])
    if keys is None or size >= 1 << 32:
        return None
    dtypes = [key.expression.array.dtype for key in keys]
    if any(dtype.is_complex for dtype in dtypes):
        return None
    unsigned = tuple(key_dtype(dtype) for dtype in dtypes)
    if size < _LEAST_PER_BIT * sum(dtype.bits for dtype in unsigned):
        return None
    operands = tuple(operand.array.dtype for operand in root.operands)
    by_place = sum(dtype.storage_bytes for dtype in operands) > _MOST_CARRIED_BYTES
    carried = (*unsigned, S64) if by_place else operands
    return _RadixPlan(tuple(keys), digits_for(unsigned, size), carried, by_place)


def _emit(radix: _RadixPlan | None, outer: list[int], k: KernelContext) -> None:
    """Sort row by row; rows are counted by the dimensions `outer`."""
    dim = k.root.attributes.dimensions[0]
    shape = k.root.operands[0].array
    with k.body.nest(shape.dims, outer, (k.begin, k.end)) as at:
        if radix is None:
            _merge(k, at, dim)
        else:
            _radix(k, radix, at, dim)


def _elements(k: KernelContext, at: Sequence[IndexValue], dim: int, i: IndexValue) -> list[Value]:
    index = (*at[:dim], i, *at[dim + 1 :])
    return [k.read(operand, index) for operand in k.root.operands]


def _write(
    k: KernelContext, at: Sequence[IndexValue], dim: int, i: IndexValue, values: Sequence[Value]
) -> None:
    index = (*at[:dim], i, *at[dim + 1 :])
    for output, value in zip(k.outputs, values, strict=True):
        output.store(k.math, index, value)


# ---------------------------------------------------------------- by comparison


def _merge(k: KernelContext, at: Sequence[IndexValue], dim: int) -> None:
    """Sort one row by comparisons."""
    size = _size(k.root)
    rows = SortRows(k, [operand.array.dtype for operand in k.root.operands], size)
    arrays = rows.buffers(0)
    with k.body.loop(0, size) as i:
        rows.store(arrays, i, _elements(k, at, dim, i))
    MergeSorter(rows, partial(_precedes, k)).sort()
    arrays = rows.buffers(rows.half)
    with k.body.loop(0, size) as i:
        _write(k, at, dim, i, rows.load(arrays, i))


def _precedes(k: KernelContext, left: Sequence[Value], right: Sequence[Value]) -> Value:
    """Inline the called computation; it takes the pairs of the operands in turn."""
    arguments = [v for pair in zip(left, right, strict=True) for v in pair]
    return k.g.inline(k.root.called[0], arguments)[0]


# ---------------------------------------------------------------- by keys


def _radix(k: KernelContext, plan: _RadixPlan, at: Sequence[IndexValue], dim: int) -> None:
    """Sort one row by the digits of its keys."""
    size = _size(k.root)
    rows = SortRows(k, plan.carried, size)
    of_elements = _key_function(k, plan.keys)
    keys = _keys_themselves if plan.by_place else of_elements
    sorter = RadixSorter(rows, plan.digits, keys, 2 * rows.half_bytes)
    sorter.clear()
    arrays = rows.buffers(0)
    with k.body.loop(0, size) as i:
        values = _elements(k, at, dim, i)
        if plan.by_place:
            values = [*of_elements(values), k.math.value(i)]
        rows.store(arrays, i, values)
        sorter.count(values)
    sorter.sort(size)
    arrays = rows.buffers(rows.half)
    with k.body.loop(0, size) as i:
        values = rows.load(arrays, i)
        _write(k, at, dim, i, _elements(k, at, dim, values[-1]) if plan.by_place else values)


def _keys_themselves(values: Sequence[Value]) -> list[Value]:
    """Return the keys of a moved value that consists of keys and position."""
    return list(values[:-1])


def _key_function(k: KernelContext, keys: Sequence[Key]) -> KeyFunction:
    """Return the function that computes the keys from the elements of all operands."""
    (comparator,) = k.root.called

    def of_elements(values: Sequence[Value]) -> list[Value]:
        left = {p: values[p.attributes.number // 2] for p in comparator.parameters}
        frame = Frame(left)
        flat, k.g.flat = k.g.flat, False
        made = [k.g.element(frame, key.expression, ()) for key in keys]
        k.g.flat = flat
        return [
            order_key(k.b, value, total=key.total, descending=key.descending)
            for key, value in zip(keys, made, strict=True)
        ]

    return of_elements
