"""topk of a few elements of short rows, as in a mixture of experts: a row in each lane.

The first elements so far stay in registers, in order. A further element goes to its place among
them, after those that are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from hloc.codegen.builder.lane_builder import LaneBuilder
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import LaneSlot, Value
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.emitter import KernelPlan
from hloc.codegen.kernels.lanes import lane_count, mark_final, nest_of_rows
from hloc.codegen.kernels.order_key import order_key
from hloc.codegen.llvm.target import Target
from hloc.dtypes import BF16, DTYPES, F16, F32, S32
from hloc.ir.instruction import Instruction

_TYPES = (F32, S32, BF16, F16)
_MOST_KEPT, _MOST_ELEMENTS = 4, 4096
_MOST_KEPT_OF_SHORT, _MOST_SHORT = 8, 256
"""Most elements that are kept, and of a row.

Time relative to the routine of one row, f32, AVX2: 1 and 2 of 2 to 64 0.02 to 0.11, 4 and 8 of 64
0.17 and 0.32, 2 and 4 of 1,000 0.40 and 0.63, 8 of 256 0.80, of 1,000 1.17.
"""


def plan_in_lanes(inst: Instruction, target: Target) -> KernelPlan[KernelContext] | None:
    """Plan a topk with a row in each lane, None if the routine of one row is faster."""
    operand, lanes = inst.operands[0].array, lane_count(inst, target)
    *outer, size = operand.dims
    most = _MOST_KEPT_OF_SHORT if size <= _MOST_SHORT else _MOST_KEPT
    if not 0 < inst.attributes.k <= most or size > _MOST_ELEMENTS:
        return None
    if operand.dtype not in _TYPES or not lanes or not outer or outer[-1] <= lanes:
        return None
    return KernelPlan(partial(_emit, outer, size), outer[0])


def _emit(outer: list[int], size: int, k: KernelContext) -> None:
    """Write the loop over rows."""
    source = k.plain_array(k.root.operands[0])
    b, count = k.b, k.root.attributes.k
    assert source is not None
    assert isinstance(b, LaneBuilder)

    def element(place: IndexValue) -> list[Value]:
        """Return the key, the value and the position of an element of each row."""
        value = source.load(k.math, (*at, place))
        position = b.as_lanes(b.convert(k.math.value(place), S32))
        return [_key(b, value, largest=k.root.attributes.largest), value, position]

    with nest_of_rows(k, outer, range(len(outer))) as at:
        slots = [[b.lane_slot(x.dtype) for x in element(0)] for _ in range(count)]
        with k.body.loop(0, count) as place:
            empty = [k.math.compare("LE", place, number) for number in range(count)]
            _insert(b, slots, element(place), empty)
        with k.body.loop(count, size) as place:
            _insert(b, slots, element(place))
        for number, (_, *kept) in enumerate(slots):
            for output, slot in zip(k.outputs, kept, strict=True):
                output.store(k.math, (*at, number), b.load(slot, slot.dtype, 0))
    mark_final(k)


def _key(b: LaneBuilder, value: Value, *, largest: bool) -> Value:
    """Return a signed integer that is less for what comes first; vectors compare them faster."""
    key = order_key(b, value, total=True, descending=largest)
    signed = DTYPES[f"s{key.dtype.bits}"]
    return b.bitcast(b.xor(key, b.const(key.dtype, 1 << (key.dtype.bits - 1))), signed)


def _insert(
    b: LaneBuilder,
    slots: Sequence[Sequence[LaneSlot]],
    new: Sequence[Value],
    empty: Sequence[Value] = (),
) -> None:
    """Move `new` to its place in `slots`, of which some may be `empty`; the last one is dropped."""
    old = [[b.load(slot, slot.dtype, 0) for slot in row] for row in slots]
    before = [b.compare("LT", new[0], row[0]) for row in old]  # false, then true
    if empty:
        before = [b.or_(x, b.as_lanes(y)) for x, y in zip(before, empty, strict=True)]
    for number, row in enumerate(slots):
        for part, slot in enumerate(row):
            value = new[part]
            if number:
                value = b.select(before[number - 1], old[number - 1][part], value)
            b.store(slot, 0, b.select(before[number], value, old[number][part]))
