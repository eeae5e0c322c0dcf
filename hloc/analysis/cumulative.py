"""Cumulative operations: reduce-windows that all begin, or all end, with the array."""

from __future__ import annotations

from hloc.ir.attributes import WindowDimension
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.ops.folding import recognised_reducer
from hloc.shapes import ArrayShape


@dataclass(frozen=True, slots=True)
class Cumulative:
    """The elements of an inclusive scan that a reduce-window computes.

    Attributes:
        dim: the scanned dimension.
        reverse: True if it scans from the last element to the first.
        start, limit: the elements of the scan that are results.
        empty: results before the beginning of the scan, which fold no elements.
    """

    dim: int
    reverse: bool
    start: int
    limit: int
    empty: int


def cumulative(inst: Instruction) -> Cumulative | None:
    """Return the scan that reduce-window `inst` of static shape computes, None if it is no scan."""
    window = inst.attributes.window
    dims = inst.operands[0].array.dims
    if window is None or 0 in dims:
        return None
    wide = [i for i, d in enumerate(window.dimensions) if d != WindowDimension(1)]
    if len(wide) != 1:
        return None
    (dim,) = wide
    d, n = window.dimensions[dim], dims[dim]
    if d.stride != 1 or d.base_dilation != 1 or d.window_dilation != 1:
        return None
    if n + d.pad_low + d.pad_high < d.size:
        return None
    # The window of result i reaches from i - pad_low to i - pad_low + size - 1.
    if d.pad_high <= 0 and n + d.pad_high <= d.size:
        first = d.size - d.pad_low - 1
        return Cumulative(dim, False, max(0, first), n + d.pad_high, max(0, -first))
    if d.pad_low <= 0 and n + d.pad_low <= d.size:
        end = n + d.pad_high - d.size + 1
        return Cumulative(dim, True, -d.pad_low, min(n, end), max(0, end - n))
    return None


def plain_scan(inst: Instruction) -> Cumulative | None:
    """Return the scan that `inst` computes if one operation on real numbers folds one array.

    Such a scan is compiled to one loop: no other instructions are needed for it.
    """
    if not inst.is_a("reduce-window") or len(inst.operands) != 2:
        return None
    shape = inst.shape
    if not isinstance(shape, ArrayShape) or shape.dtype.is_complex or shape.dynamic:
        return None
    source, start = inst.operands[0].array, inst.operands[1].array
    if source.dynamic or source.dtype is not shape.dtype or start.dtype is not shape.dtype:
        return None
    if inst.called[0].parameters[0].array.dtype is not shape.dtype:
        return None
    name = recognised_reducer(inst.called[0])
    is_fold = name not in ("", "second")
    if shape.dtype.is_pred:
        is_fold = is_fold and name not in ("add", "multiply")
    return cumulative(inst) if is_fold else None
