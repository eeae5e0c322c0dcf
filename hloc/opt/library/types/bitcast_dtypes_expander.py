"""Expand bitcasts between types of different widths into shifts."""

from __future__ import annotations

from hloc.dtypes import DTYPES, DType
from hloc.ir.instruction import Instruction
from hloc.ops.builder import Builder
from hloc.opt.expander import Expander, is_static
from hloc.shapes import ArrayShape


class BitcastDtypesExpander(Expander):
    """Replace a `bitcast-convert` that changes the width by shifts of integers.

    `u32[2] -> u8[2,4]` takes each byte by a shift to the right, lowest first; the other direction
    shifts the parts to the left and joins them by `or`. Exact. Cost: O(1) instructions each. Not in
    -O2: the rule for bitcast-convert emits just that. Source: XLA's pass of this name.
    """

    acts_on = frozenset({"bitcast-convert"})

    def when(self, inst: Instruction) -> bool:
        old, new = inst.operands[0].array.dtype, inst.array.dtype
        plain = all(_unsigned(dtype) is not None for dtype in (old, new))
        return is_static(inst) and old.bits != new.bits and plain

    def expand(self, inst: Instruction) -> Instruction:
        b = Builder(inst.computation)
        (x,) = inst.operands
        old, new = _unsigned(x.array.dtype), _unsigned(inst.array.dtype)
        assert old is not None
        assert new is not None
        bits = _cast(b, x, old)
        joined = _cut(b, bits, new) if old.bits > new.bits else _joined(b, bits, new)
        return _cast(b, joined, inst.array.dtype)


def _unsigned(dtype: DType) -> DType | None:
    """Return the unsigned type with the bits of an integer or float, None if there is none."""
    return DTYPES.get(f"u{dtype.bits}") if dtype.is_integer or dtype.is_float else None


def _cast(b: Builder, x: Instruction, dtype: DType) -> Instruction:
    if x.array.dtype is dtype:
        return x
    return b.instruction("bitcast-convert", (x,), shape=ArrayShape(dtype, x.array.dims))


def _shifts(b: Builder, wide: DType, dims: tuple[int, ...], bits: int) -> Instruction:
    """Return 0, bits, 2 * bits ... along the last dimension."""
    counts = b.iota(wide, dims, len(dims) - 1)
    return b.multiply(counts, b.broadcast(b.constant(bits, wide), dims))


def _cut(b: Builder, x: Instruction, narrow: DType) -> Instruction:
    wide = x.array.dtype
    dims = (*x.array.dims, wide.bits // narrow.bits)
    copies = b.broadcast(x, dims, range(x.array.rank))
    shifts = _shifts(b, wide, dims, narrow.bits)
    return b.convert(b.instruction("shift-right-logical", (copies, shifts)), narrow)


def _joined(b: Builder, x: Instruction, wide: DType) -> Instruction:
    dims = x.array.dims
    shifts = _shifts(b, wide, dims, x.array.dtype.bits)
    parts = b.instruction("shift-left", (b.convert(x, wide), shifts))
    reducer = b.scalar_function("or", wide, "join_bits")
    return b.reduce([parts], [b.constant(0, wide)], [len(dims) - 1], reducer)
