"""Index vectors and batching dimensions, shared by gather and scatter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hloc.dtypes import Array
from hloc.ops.checks import (
    check_dims,
    check_sorted,
    require,
    same_size,
)
from hloc.shapes import ArrayShape


def check_indices(
    name: str,
    indices: ArrayShape,
    vector_dim: int,
    index_map: tuple[int, ...],
    rank: int,
) -> tuple[int, ...]:
    """Check the index array and return its dimensions without the index vector."""
    require(
        indices.dtype.is_integer,
        f"{name}: indices must be integers, but are {indices.text_without_layout}",
    )
    require(
        0 <= vector_dim <= indices.rank,
        f"{name}: index_vector_dim {vector_dim} is out of range for indices "
        f"{indices.text_without_layout}",
    )
    entries = indices.dims[vector_dim] if vector_dim < indices.rank else 1
    require(
        same_size(entries, len(index_map)),
        f"{name}: index vectors have {entries} entries, but {len(index_map)} operand dimensions "
        "are indexed",
    )
    check_dims(name, "indexed operand dimension", index_map, rank)
    return indices.dims[:vector_dim] + indices.dims[vector_dim + 1 :]


def check_batching(
    name: str,
    operand: ArrayShape,
    indices: ArrayShape,
    operand_dims: tuple[int, ...],
    indices_dims: tuple[int, ...],
    vector_dim: int,
) -> None:
    """Check the batching dimensions of the operand against those of the indices."""
    check_dims(name, "operand batching dimension", operand_dims, operand.rank)
    check_sorted(name, "operand batching dimensions", operand_dims)
    check_dims(name, "indices batching dimension", indices_dims, indices.rank)
    require(
        vector_dim not in indices_dims,
        f"{name}: index_vector_dim {vector_dim} cannot be a batching dimension",
    )
    require(
        len(operand_dims) == len(indices_dims),
        f"{name}: the operand has {len(operand_dims)} batching dimensions, "
        f"but the indices have {len(indices_dims)}",
    )
    for i, j in zip(operand_dims, indices_dims, strict=True):
        require(
            same_size(operand.dims[i], indices.dims[j]),
            f"{name}: batching dimension {i} of {operand.text_without_layout} does not match "
            f"dimension {j} of {indices.text_without_layout}",
        )


def start_indices(indices: Array, vector_dim: int, index_map: tuple[int, ...]) -> dict[int, Array]:
    """Return, for each indexed operand dimension, an s64 array of start indices `[batch...]`.

    Unsigned values beyond s64 become its largest, which is out of bounds too.
    """
    if vector_dim == indices.ndim:
        indices = indices[..., np.newaxis]
    vectors = np.moveaxis(indices, vector_dim, -1)
    if vectors.dtype == np.uint64:
        vectors = np.minimum(vectors, np.uint64(np.iinfo(np.int64).max))
    return {dim: vectors[..., i].astype(np.int64) for i, dim in enumerate(index_map)}


def batch_positions(
    dims: tuple[int, ...],
    operand_dims: tuple[int, ...],
    indices_dims: tuple[int, ...],
    vector_dim: int,
) -> dict[int, Array]:
    """Return, for each batching dimension of the operand, its index per batch position."""
    found = {}
    for dim, indices_dim in zip(operand_dims, indices_dims, strict=True):
        axis = indices_dim - (indices_dim > vector_dim)
        shape = [1] * len(dims)
        shape[axis] = dims[axis]
        found[dim] = np.broadcast_to(np.arange(dims[axis]).reshape(shape), dims)
    return found


def element_index(
    rank: int,
    batch: tuple[int, ...],
    window: Sequence[int],
    kept: Sequence[int],
    starts: dict[int, Array],
) -> list[Array]:
    """Return one index array per operand dimension, which broadcast to `batch + window`.

    `batch` and `window` are sizes, `kept` has the operand dimension of each window dimension,
    `starts` the start per batch position for the operand dimensions that have one.
    """
    index = []
    for dim in range(rank):
        total: Array = np.zeros([1] * (len(batch) + len(window)), np.int64)
        if dim in starts:
            total = total + starts[dim].reshape((*batch, *[1] * len(window)))
        if dim in kept:
            axis = kept.index(dim)
            shape = [1] * (len(batch) + len(window))
            shape[len(batch) + axis] = window[axis]
            total = total + np.arange(window[axis]).reshape(shape)
        index.append(total)
    return index
