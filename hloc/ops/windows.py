"""Window arithmetic and iteration, shared by reduce-window, select-and-scatter, convolution.

Source: system reference, parts 3.3 and 4.2: element w of window o reads the base at
`o * stride + w * window_dilation - pad_low`, if base_dilation divides it and it is in range.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import gcd, prod

import numpy as np

from hloc.dtypes import Array
from hloc.errors import HloError
from hloc.ir.attributes import Window, WindowDimension
from hloc.ops.checks import require
from hloc.shapes import UNBOUNDED

MAX_PADDED_BYTES = 4 << 30
"""Largest padded array in bytes; the evaluator refuses results beyond the same limit."""


def window_of(name: str, window: Window | None, rank: int) -> Window:
    """Return the window, which must have `rank` dimensions; none at all is legal for rank 0."""
    found = window or Window()
    require(
        len(found.dimensions) == rank,
        f"{name}: the window has {len(found.dimensions)} dimensions, but {rank} are expected",
    )
    for d in found.dimensions:
        for what, value in (
            ("size", d.size),
            ("stride", d.stride),
            ("base dilation", d.base_dilation),
            ("window dilation", d.window_dilation),
        ):
            require(value >= 1, f"{name}: the window has {what} {value}, but needs at least 1")
    return found


def dilated(size: int, dilation: int) -> int:
    """Return the extent of `size` elements spaced `dilation` apart: 3, 2 -> 5."""
    return 0 if size == 0 else (size - 1) * dilation + 1


def windowed_size(size: int, d: WindowDimension) -> int:
    """Return how many windows fit: 10 elements, size 3, stride 2 -> 4."""
    if size == UNBOUNDED:
        return UNBOUNDED
    padded = dilated(size, d.base_dilation) + d.pad_low + d.pad_high
    extent = dilated(d.size, d.window_dilation)
    return 0 if padded < extent else (padded - extent) // d.stride + 1


def windowed_dims(name: str, dims: tuple[int, ...], window: Window) -> tuple[int, ...]:
    """Return the sizes of an array of windows."""
    for size, d in zip(dims, window.dimensions, strict=True):
        if size != UNBOUNDED and dilated(size, d.base_dilation) + d.pad_low + d.pad_high < 0:
            raise HloError(
                f"{name}: padding {d.pad_low}_{d.pad_high} takes more than the {size} elements"
            )
    return tuple(windowed_size(size, d) for size, d in zip(dims, window.dimensions, strict=True))


def padded_base(array: Array, window: Window, fill: Array) -> Array:
    """Return `array` dilated and padded by `window`, with `fill` in holes and padding.

    Negative padding removes elements.

    Raises:
        MemoryError: it would have more than `MAX_PADDED_BYTES`.
    """
    if all(d.base_dilation == 1 and d.pad_low == d.pad_high == 0 for d in window.dimensions):
        return array
    sizes, source, target = [], [], []
    for size, d in zip(array.shape, window.dimensions, strict=True):
        total = max(0, dilated(size, d.base_dilation) + d.pad_low + d.pad_high)
        first = max(0, -(d.pad_low // d.base_dilation)) if d.pad_low < 0 else 0
        last = min(size, (total - d.pad_low + d.base_dilation - 1) // d.base_dilation)
        sizes.append(total)
        source.append(slice(first, max(first, last)))
        start = first * d.base_dilation + d.pad_low
        count = max(0, last - first)
        target.append(slice(start, start + dilated(count, d.base_dilation), d.base_dilation))
    if prod(sizes) * array.itemsize > MAX_PADDED_BYTES:
        raise MemoryError
    padded = np.full(sizes, fill, array.dtype)
    padded[tuple(target)] = array[tuple(source)]
    return padded


def is_plain(window: Window) -> bool:
    """True if every element of every window is in the array."""
    return all(
        d.base_dilation == 1 and d.pad_low <= 0 and d.pad_high <= 0 for d in window.dimensions
    )


def window_slices(window: Window, dims: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    """Yield, for each position in the window, the slice of the padded base that it reads.

    Args:
        window: positions are visited in row-major order.
        dims: sizes of the array of windows, which every slice has.
    """
    if 0 in dims:
        return  # no window reads anything, however large it is
    for position in product(*(range(d.size) for d in window.dimensions)):
        yield tuple(
            slice(
                at * d.window_dilation, at * d.window_dilation + dilated(size, d.stride), d.stride
            )
            for at, d, size in zip(position, window.dimensions, dims, strict=True)
        )


def overlap(
    count: int, step: int, offset: int, dilation: int, size: int
) -> tuple[slice, slice] | None:
    """Return the i below `count` that read an element, and the elements they read; None if none.

    i reads element `(i * step + offset) / dilation` of `size`, if that is a whole number in range.
    """
    common = gcd(step, dilation)
    if count == 0 or size == 0 or offset % common:
        return None
    first = max(0, -(offset // step)) if offset < 0 else 0
    period = dilation // common
    while (first * step + offset) % dilation or first * step + offset < 0:
        first += 1
    last = min(count - 1, ((size - 1) * dilation - offset) // step)
    if last < first:
        return None
    start = (first * step + offset) // dilation
    steps = (last - first) // period
    stop = start + steps * (step // common)
    return slice(first, last + 1, period), slice(start, stop + 1, step // common)
