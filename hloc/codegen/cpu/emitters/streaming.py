"""Large results bypass the caches, by non-temporal stores.

Such a store writes a whole aligned vector, so a part of a loop begins and ends with ordinary
stores, which may overlap the adjacent ones; results may therefore not overwrite operands. Sums of
arrays of 64 to 256 MB take 0.6 to 0.7 of the time, and the next reader is no slower: the caches
would have evicted the beginning anyway.
"""

from __future__ import annotations

from collections.abc import Callable

from hloc.codegen.builder.index import Index
from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.lanes import Lanes, lanes_of
from hloc.dtypes import S64
from hloc.shapes import ArrayShape, array_leaves

STREAMED_BYTES = 64 << 20
"""Smallest result for which it surely pays; the last-level cache is often shared."""

_ROW_VECTORS = 32
"""Fewest vectors of a row for which the cost of its two ends is negligible."""


def streaming_lanes(k: KernelContext, shape: ArrayShape, neighbours: int) -> Lanes | None:
    """Return the lanes of a kernel whose result bypasses the caches, else None.

    Args:
        k: the kernel.
        shape: of its result.
        neighbours: number of contiguous elements.
    """
    lanes = lanes_of(k)
    if lanes is None or not k.target.triple.startswith("x86_64"):
        return None
    alone = len(array_leaves(k.inst.shape)) == 1 and k.aliased == (None,)
    large = shape.size_bytes >= STREAMED_BYTES and neighbours >= _ROW_VECTORS * lanes.count
    return lanes if alone and large else None


def stream(
    lanes: Lanes,
    output: IrArray,
    index: Index,
    dim: int,
    stop: IndexValue,
    write: Callable[[IndexValue], None],
) -> None:
    """Write contiguous elements, at least a vector.

    Args:
        lanes: from `streaming_lanes`.
        output: the result.
        index: of the first element.
        dim: the contiguous dimension.
        stop: the end along it.
        write: writes the elements at given positions along it.
    """
    k, math, fn = lanes.k, lanes.k.math, lanes.k.fn
    start = index[dim]
    last = math.sub(stop, lanes.count)
    first = math.minimum(start, last)  # a part may be shorter than a vector
    distance = math.sub(last, first)
    with k.body.loop(0, 2) as side:
        position = math.add(first, math.mul(distance, side))
        with lanes.inside():
            write(lanes.at(position))
    element_bytes = output.dtype.storage_bytes
    vector_bytes = lanes.count * element_bytes
    address = k.b.address(output.pointer, output.dtype, math.linear(index, output.strides))
    number = fn.value(f"ptrtoint ptr {address} to i64")
    behind = fn.value(f"sub i64 0, {number}")
    ahead = fn.value(f"and i64 {behind}, {vector_bytes - 1}")
    skipped = Value(S64, fn.value(f"udiv exact i64 {ahead}, {element_bytes}"))
    aligned = math.add(start, skipped)
    end = math.add(last, 1)
    with k.body.loop(aligned, end, lanes.count) as at, lanes.inside(), lanes.b.streaming():
        write(lanes.at(at))


def end_streaming(k: KernelContext) -> None:
    """Emit a store fence, so that threads that see the end of the kernel see its stores."""
    k.fn.call("void", "@llvm.x86.sse.sfence")
