"""Sorts whose keys are operands: calls of the routines that sort one row.

A single key, alone or with one operand of 32 or 64 bits, is sorted by one call. Otherwise the
positions are sorted, by the least significant key first, and all operands are gathered by them.
"""

from __future__ import annotations

from functools import partial

from hloc.codegen.cpu.emitters.sort.radix_functions import RowForm
from hloc.codegen.cpu.emitters.sort.sort_columns import Groups, Row, groups_of, rows_to_sort
from hloc.codegen.cpu.emitters.sort.sort_keys import KeyForm, operand_order
from hloc.codegen.cpu.emitters.sort.sort_routines import (
    OTHER_BYTES,
    gather_routine,
    sort_bytes,
    sort_routines,
)
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.emitter import KernelPlan
from hloc.dtypes import U32
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.memory.heap import aligned_bytes
from hloc.ops.comparators import keys_of

_PLACE_BYTES = U32.storage_bytes


@dataclass(frozen=True, slots=True)
class CallPlan:
    """The calls that sort the rows of an instruction.

    Attributes:
        orders: numbers of the operands that are keys, and their orders; most significant first.
        size: of a row.
        other_bytes: size of the payload of a single key.
        by_place: positions are the payload, and operands are gathered by them.
    """

    orders: tuple[tuple[int, KeyForm], ...]
    size: int
    other_bytes: int
    by_place: bool

    def form(self, number: int) -> RowForm:
        """Return the form of the routine for key `number`."""
        key = self.orders[number][1]
        return RowForm(key.bits, key.is_float, self.other_bytes)

    @property
    def row_bytes(self) -> int:
        """Bytes for a row of the widest elements."""
        return aligned_bytes(8 * self.size)

    @property
    def scratch_bytes(self) -> int:
        """Bytes for the routines; with `by_place`, after two rows of positions and of keys."""
        forms = (self.form(number) for number in range(len(self.orders)))
        inner = max(sort_bytes(form, self.size, numbered=self.by_place) for form in forms)
        return inner + (self.first_scratch if self.by_place else 0)

    @property
    def first_scratch(self) -> int:
        """Offset of the memory of the routines with `by_place`."""
        return 4 * self.row_bytes


def call_plan(inst: Instruction) -> CallPlan | None:
    """Return the calls that sort `inst`, None if routines do not support it."""
    size = inst.operands[0].array.dims[inst.attributes.dimensions[0]]
    if size >= 1 << 32:
        return None
    keys = keys_of(inst.called[0])
    orders = [operand_order(key) for key in keys or ()]
    known = tuple(order for order in orders if order is not None)
    if not known or len(known) < len(orders):
        return None
    others = [o for n, o in enumerate(inst.operands) if n != known[0][0]]
    other_bytes = sum(other.array.dtype.storage_bytes for other in others)
    by_place = len(known) > 1 or len(others) > 1 or other_bytes not in OTHER_BYTES
    return CallPlan(known, size, _PLACE_BYTES if by_place else other_bytes, by_place)


def plan(inst: Instruction) -> KernelPlan[KernelContext] | None:
    """Plan a sort by keys that routines support: row by row, or groups of columns at a time.

    The columns of a group are in scratch memory after the memory of the routines.
    """
    calls = call_plan(inst)
    if calls is None:
        return None
    groups = groups_of(inst)
    columns_at = aligned_bytes(calls.scratch_bytes)
    emit = partial(_emit, calls, groups, columns_at)
    return KernelPlan(emit, groups.extent, columns_at + groups.scratch_bytes)


def _emit(plan: CallPlan, groups: Groups, columns_at: int, k: KernelContext) -> None:
    """Sort row by row."""
    arrays = [k.plain_array(operand) for operand in k.root.operands]
    sources = [array for array in arrays if array is not None]
    assert len(sources) == len(arrays)
    with rows_to_sort(k, groups, sources, columns_at) as (here, there):
        if plan.by_place:
            _by_place(k, plan, here, there)
        else:
            _sort(k, plan, here, there)
    k.level = 0


def _sort(k: KernelContext, plan: CallPlan, rows: list[Row], results: list[Row]) -> None:
    """Sort by the only key."""
    key = plan.orders[0][0]
    moved = [rows[key], results[key]]
    if plan.other_bytes:
        moved += [rows[1 - key], results[1 - key]]
    _call_sort(k, plan, 0, moved, k.scratch.text)


def _call_sort(k: KernelContext, plan: CallPlan, key: int, moved: list[Row], scratch: str) -> None:
    form, numbers = plan.form(key), plan.orders[key][1].numbers
    routines = sort_routines(form, k.target)
    k.use(routines)
    rows = [row.arguments for row in moved]
    how = [f"i{form.bits} {number}" for number in numbers]
    k.b.call_routine(form.name, (), *rows, f"ptr {scratch}", plan.size, *how)


def _by_place(k: KernelContext, plan: CallPlan, rows: list[Row], results: list[Row]) -> None:
    """Sort the positions by one key after another, and gather all operands but the last key."""
    parts = [k.b.offset_pointer(k.scratch, i * plan.row_bytes).text for i in range(4)]
    places = [Row(part, 1, _PLACE_BYTES) for part in parts[:2]]
    inner = k.b.offset_pointer(k.scratch, plan.first_scratch).text
    here = Row("null", 1, _PLACE_BYTES)  # the positions 0, 1, 2 ...
    first = plan.orders[0][0]
    for key in reversed(range(len(plan.orders))):
        number = plan.orders[key][0]
        keys = rows[number]
        fetched, dropped = (Row(part, 1, keys.element_bytes) for part in parts[2:])
        if here.pointer != "null":
            _gather(k, keys, fetched, here, plan.size)
            keys = fetched
        there = places[key % 2]
        _call_sort(k, plan, key, [keys, dropped if key else results[first], here, there], inner)
        here = there
    for number, (row, result) in enumerate(zip(rows, results, strict=True)):
        if number != first:
            _gather(k, row, result, here, plan.size)


def _gather(k: KernelContext, row: Row, result: Row, places: Row, size: int) -> None:
    """Copy a row in the order of positions."""
    routine = gather_routine(row.element_bytes, k.target)
    k.use(routine)
    at = f"ptr {places.pointer}"
    k.b.call_routine(routine.name, (), row.arguments, result.arguments, at, size)
