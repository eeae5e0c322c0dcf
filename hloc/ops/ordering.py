"""Orders of elements: total-order keys, the first k of a row, a merge sort by any comparator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hloc.dtypes import Array, dtype_of_numpy
from hloc.ops.contraction import is_integer

Precedes = Callable[[tuple[Array, ...], tuple[Array, ...]], Array]
"""`precedes(a, b)`: for each element, whether a comes strictly before b."""


def total_order_key(values: Array) -> Array:
    """Return integers in the order -NaN < -inf < ... < -0 < +0 < ... < inf < NaN of floats.

    Integers and predicates are returned as s64 or u64; f8e8m0fnu has no sign and is ordered by its
    bits.
    """
    if is_integer(values.dtype):
        wide: type[Any] = np.uint64 if values.dtype == np.uint64 else np.int64
        keys: Array = values.astype(wide)
        return keys
    dtype = dtype_of_numpy(values.dtype)
    assert dtype is not None, values.dtype
    bits = np.ascontiguousarray(values).view(f"u{dtype.storage_bytes}").reshape(values.shape)
    signed = bits.astype(np.int64) if dtype.bits < 64 else bits.view(np.int64)
    if not dtype.has_sign:
        return np.asarray(signed)
    width = dtype.bits
    top = np.int64(1) << np.int64(width - 1) if width < 64 else np.int64(np.iinfo(np.int64).min)
    negative = (signed & top) != 0
    magnitude = signed & ~top
    return np.asarray(np.where(negative, ~magnitude, magnitude))


def topk(values: Array, k: int, *, largest: bool) -> tuple[Array, Array]:
    """Return the k first values of every row and their s64 positions; ties by lower position."""
    keys = total_order_key(values)
    order = np.argsort(~keys if largest else keys, axis=-1, kind="stable")[..., :k]
    return np.take_along_axis(values, order, axis=-1), order


def stable_order(columns: tuple[Array, ...], precedes: Precedes) -> Array:
    """Return the stable order of every row of `columns`, each `[rows, n]`, by any comparator.

    A bottom-up merge sort of all rows at once: where an element of the left run goes is found by
    binary search in the right run. A comparator that is no order still gives a permutation.
    """
    rows, size = columns[0].shape
    order = np.broadcast_to(np.arange(size), (rows, size)).copy()
    width = 1
    while width < size:
        order = _merge_runs(columns, order, width, precedes)
        width *= 2
    return order


def _merge_runs(columns: tuple[Array, ...], order: Array, width: int, precedes: Precedes) -> Array:
    """Merge neighbouring sorted runs of `width` positions in every row of `order`."""
    rows, size = order.shape
    position = np.arange(size)
    start = position // (2 * width) * (2 * width)
    is_left = position - start < width
    left = position[is_left]
    middle = np.minimum(start[is_left] + width, size)
    end = np.minimum(start[is_left] + 2 * width, size)
    line = np.arange(rows)[:, np.newaxis]
    sorted_columns = tuple(column[line, order] for column in columns)
    mine = tuple(column[:, left] for column in sorted_columns)
    # How many elements of the right run come strictly before each element of the left run.
    low = np.broadcast_to(middle, (rows, len(left))).copy()
    high = np.broadcast_to(end, (rows, len(left))).copy()
    while (open_ := low < high).any():
        probe = np.where(open_, (low + high) // 2, 0)
        other = tuple(column[line, probe] for column in sorted_columns)
        before = precedes(other, mine) & open_
        low = np.where(before, probe + 1, low)
        high = np.where(open_ & ~before, probe, high)
    target = left + _ascending(low - middle, start[is_left])
    merged = np.empty_like(order)
    taken = np.zeros((rows, size), bool)
    np.put_along_axis(merged, target, order[:, left], axis=1)
    np.put_along_axis(taken, target, True, axis=1)
    # Elements of the right runs fill the free places in their order.
    merged[~taken] = order[:, ~is_left].reshape(-1)
    return merged


def _ascending(counts: Array, run: Array) -> Array:
    """Return `counts` made non-decreasing within every run, so that no two targets collide."""
    step = int(counts.max(initial=0)) + 1
    group = np.unique(run, return_inverse=True)[1] * step
    return np.asarray(np.maximum.accumulate(counts + group, axis=1) - group)
