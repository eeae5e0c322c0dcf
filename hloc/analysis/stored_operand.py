"""Operands that memory holds in a simpler form: slices of arrays, and narrower arrays."""

from __future__ import annotations

from hloc.analysis.dataflow import forwards, is_row_major
from hloc.dtypes import BF16, F16, F32, S8, U8
from hloc.ir.instruction import Instruction

_NARROW = {S8: (BF16, F16, F32), U8: (BF16, F16, F32), BF16: (F32,), F16: (F32,)}
"""Element type -> the floats that hold all its values."""


def reshaped_from(inst: Instruction) -> Instruction:
    """Return what `inst` reshapes, row-major throughout, else `inst` itself."""
    while inst.is_a("reshape", "bitcast") and forwards(inst) and is_row_major(inst.array):
        if inst.operands[0].array.dtype is not inst.array.dtype:
            break
        (inst,) = inst.operands
    return inst


def contiguous_slice(inst: Instruction) -> Instruction | None:
    """Return the slice whose bytes `inst` has, if they lie side by side in its operand.

    `inst` is a `slice` or `dynamic-slice`, or reshapes one, row-major throughout: one element of
    some outermost dimensions, a range of the next, and all of the others, as a layer of stacked
    weights `f32[12,768,3072]`.
    """
    found = reshaped_from(inst)
    return found if found.is_a("slice", "dynamic-slice") and _is_contiguous(found) else None


def is_widening(inst: Instruction) -> bool:
    """True for a convert of bytes or narrow floats to a float that holds all their values."""
    if not inst.is_a("convert"):
        return False
    source = inst.operands[0].array
    return inst.array.dtype in _NARROW.get(source.dtype, ()) and is_row_major(source)


def _is_contiguous(inst: Instruction) -> bool:
    source, part = inst.operands[0].array, inst.array
    if not is_row_major(source) or not is_row_major(part) or source.dynamic or part.dynamic:
        return False
    if inst.is_a("slice") and any(dim.stride != 1 for dim in inst.attributes.slice):
        return False
    cut = [dim for dim, size in enumerate(part.dims) if size != source.dims[dim]]
    return not cut or all(size == 1 for size in part.dims[: cut[-1]])
