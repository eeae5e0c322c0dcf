"""Arrays with each element on exactly one device, and zero on all others.

They are combined by an all-reduce that adds bit patterns: exact for every element, -0 and NaN too.
"""

from __future__ import annotations

from hloc.dtypes import DTYPES, DType
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.opt.spmd.region import Region, Value
from hloc.opt.spmd.sums import reducer, summed
from hloc.opt.spmd.tiling import Axes, Tiling
from hloc.shapes import ArrayShape


def disjoint_sum(
    region: Region,
    x: Instruction,
    held: Instruction | None,
    whole: ArrayShape,
    tiling: Tiling,
    axes: Axes,
    wanted: Tiling | None,
) -> Value:
    """Return the array whose elements are distributed along `axes`.

    Args:
        region: where instructions are added.
        x: the array on the device.
        held: `pred`, true for the elements of this device; None if `x` is zero elsewhere.
        whole: shape of the result.
        tiling: of the result, without `axes`.
        axes: those along which each element is on one device.
        wanted: a tiling that a reduce-scatter may give directly.
    """
    b, own = region.build, x.array.dtype
    bits = _bits(own)
    if bits is not own:
        x = b.instruction("bitcast-convert", (x,), shape=ArrayShape(bits, x.array.dims))
    if held is not None:
        x = b.select(held, x, b.splat(0, x.array))
    whole_bits = ArrayShape(bits, whole.dims)
    total = summed(region, x, whole_bits, tiling, axes, _adder(region, bits), wanted)
    found = total.inst
    if bits is not own:
        found = b.instruction("bitcast-convert", (found,), shape=ArrayShape(own, found.array.dims))
    return region.value(found, whole, total.tiling)


def _bits(dtype: DType) -> DType:
    """Return the unsigned type of the same width; complex numbers are added as they are."""
    return DTYPES[f"u{dtype.bits}"] if dtype.is_float and dtype.bits >= 8 else dtype


def _adder(region: Region, dtype: DType) -> Computation:
    return reducer(region, "or" if dtype.is_pred else "add", dtype)
