"""Elements at positions that are computed lane by lane: the start indices of a gather.

Positions are computed in vectors, elements loaded one by one, or by an instruction that gathers
where that is faster.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.lane_builder import LaneBuilder
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import LaneIndex, Lanes, NeedsScalars, Value
from hloc.codegen.elements.elemental import ElementGenerator, Frame, constant_array
from hloc.dtypes import S32, S64, DType
from hloc.ir.instruction import Instruction


def load_each(
    g: ElementGenerator,
    frame: Frame,
    operand: Instruction,
    window: Sequence[IndexValue],
    starts: Sequence[tuple[int, int, Value]],
) -> Value:
    """Return an element per lane of an operand of a gather.

    Args:
        g: writes the code.
        frame: that of the gather.
        operand: the array to read.
        window: the index without what differs from lane to lane.
        starts: dimensions of the operand, the largest start index and the start indices, by lane.

    Raises:
        NeedsScalars: the operand is not in memory.
    """
    b, array = g.b, _array(g, frame, operand)
    assert isinstance(b, LaneBuilder)
    dtype = S32 if operand.array.elements < 1 << 31 else S64
    total: Value | None = None
    for dim, highest, value in starts:
        start = _clamped(b, value, highest, dtype)
        offset = b.imul(start, b.const(dtype, array.strides[dim]))
        total = offset if total is None else b.iadd(total, offset)
    assert total is not None
    fixed, pointer = g.math.linear(window, array.strides), array.pointer
    if isinstance(fixed, LaneIndex):
        if b.mask:
            raise NeedsScalars("positions of lanes that are not in memory")
        total = b.iadd(total, b.convert(Lanes(S64, b.vector(fixed)), dtype))
    elif fixed != 0:
        pointer = Value(pointer.dtype, b.address(pointer, array.dtype, fixed))
    return b.load_each(pointer, array.dtype, b.as_lanes(total))


def _array(g: ElementGenerator, frame: Frame, operand: Instruction) -> IrArray:
    """Return where an instruction is in memory."""
    source = frame.sources.get(operand)
    while isinstance(source, tuple):
        frame, operand = source
        source = frame.sources.get(operand)
    if source is None and operand.is_a("constant"):
        literal = operand.attributes.literal
        return constant_array(g, operand, operand.array, literal)
    if not isinstance(source, list):
        raise NeedsScalars("computed elements at computed positions")
    array: IrArray = source[0]
    return array


def _clamped(b: LaneBuilder, value: Value, highest: int, dtype: DType) -> Value:
    """Return start indices within [0, highest], clamped in their own type or in s32."""
    if value.dtype.bits < S32.bits:
        value = b.convert(value, S32)
    own, prefix = value.dtype, "u" if value.dtype.is_unsigned else "s"
    most = min(highest, (1 << (own.bits - own.is_signed)) - 1)
    value = b.intrinsic(f"{prefix}min", value, b.const(own, most))
    if own.is_signed:
        value = b.intrinsic("smax", value, b.const(own, 0))
    return b.convert(value, dtype)
