"""Slices whose elements lie side by side in the array that they are taken from."""

from __future__ import annotations

from hloc.analysis.dataflow import forwards, is_row_major
from hloc.ir.instruction import Instruction


def contiguous_slice(inst: Instruction) -> Instruction | None:
    """Return the slice whose bytes `inst` has, if they lie side by side in its operand.

    `inst` is a `slice` or `dynamic-slice`, or reshapes one, row-major throughout: one element of
    some outermost dimensions, a range of the next, and all of the others, as a layer of stacked
    weights `f32[12,768,3072]`.
    """
    while inst.is_a("reshape", "bitcast") and forwards(inst) and is_row_major(inst.array):
        (inst,) = inst.operands
    return inst if inst.is_a("slice", "dynamic-slice") and _is_contiguous(inst) else None


def _is_contiguous(inst: Instruction) -> bool:
    source, part = inst.operands[0].array, inst.array
    if not is_row_major(source) or not is_row_major(part) or source.dynamic or part.dynamic:
        return False
    if inst.is_a("slice") and any(dim.stride != 1 for dim in inst.attributes.slice):
        return False
    cut = [dim for dim, size in enumerate(part.dims) if size != source.dims[dim]]
    return not cut or all(size == 1 for size in part.dims[: cut[-1]])
