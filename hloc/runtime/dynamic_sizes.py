"""Arrays with dynamic dimensions at the boundary: arguments are padded, results are sliced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hloc.codegen.lower.hidden_sizes import DynamicBoundary
from hloc.dtypes import Array
from hloc.errors import HloError
from hloc.shapes import ArrayShape


def padded_arguments(
    arrays: Sequence[Any], shapes: Sequence[ArrayShape], boundary: DynamicBoundary
) -> list[Any]:
    """Return `arrays` at their bounds, then the hidden sizes: `f32[2]` for `f32[<=4]` -> 4, 2.

    Raises:
        HloError: an array is larger than its bound.
    """
    result = list(arrays)
    sizes = []
    for hidden in boundary.parameters:
        array, shape = np.asarray(arrays[hidden.leaf]), shapes[hidden.leaf]
        if array.ndim != shape.rank or array.shape[hidden.dim] > shape.dims[hidden.dim]:
            raise HloError(
                f"argument {hidden.leaf} has dimensions {list(array.shape)}, "
                f"but at most {list(shape.dims)} are possible"
            )
        sizes.append(np.int32(array.shape[hidden.dim]))
        present = np.asarray(result[hidden.leaf])
        room = [(0, 0)] * shape.rank
        room[hidden.dim] = (0, shape.dims[hidden.dim] - present.shape[hidden.dim])
        result[hidden.leaf] = np.pad(present, room)
    return [*result, *(np.asarray(size) for size in sizes)]


def cut_results(results: Sequence[Array], boundary: DynamicBoundary) -> list[Array]:
    """Return the declared results in their run-time sizes, without the hidden ones."""
    count = len(results) - len(boundary.results)
    result = list(results[:count])
    for hidden, size in zip(boundary.results, results[count:], strict=True):
        array = result[hidden.leaf]
        kept = max(0, min(int(size), array.shape[hidden.dim]))
        part = tuple(slice(kept if dim == hidden.dim else None) for dim in range(array.ndim))
        result[hidden.leaf] = array[part]
    return result
