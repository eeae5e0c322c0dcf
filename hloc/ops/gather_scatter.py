"""Indexed access: gather, scatter.

Source: XLA operation semantics of Gather and Scatter. A gather clamps its start indices; a scatter
skips a window of which any part is out of bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from hloc.ir.attributes import attr
from hloc.ir.factors import FactorDraft
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import (
    CalledRole,
    CallFunction,
    HostValue,
    Operands,
    ShapeRequest,
    define,
)
from hloc.lazy_dataclass import dataclass
from hloc.ops.checks import (
    array_operand,
    array_operands,
    check_dims,
    check_sorted,
    require,
    same_size,
    same_type,
)
from hloc.ops.folding import combine_at
from hloc.ops.reducers import check_equal_dims, one_or_tuple, reducer_results
from hloc.ops.shared import Array, narrowed
from hloc.shapes import UNBOUNDED, ArrayShape, Shape, TupleShape


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherAttributes:
    offset_dims: tuple[int, ...] = attr("int_list")
    collapsed_slice_dims: tuple[int, ...] = attr("int_list")
    start_index_map: tuple[int, ...] = attr("int_list")
    operand_batching_dims: tuple[int, ...] = attr("int_list", default=())
    start_indices_batching_dims: tuple[int, ...] = attr("int_list", default=())
    index_vector_dim: int = attr("int")
    slice_sizes: tuple[int, ...] = attr("int_list")
    indices_are_sorted: bool = attr("bool", default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScatterAttributes:
    update_window_dims: tuple[int, ...] = attr("int_list")
    inserted_window_dims: tuple[int, ...] = attr("int_list")
    scatter_dims_to_operand_dims: tuple[int, ...] = attr("int_list")
    input_batching_dims: tuple[int, ...] = attr("int_list", default=())
    scatter_indices_batching_dims: tuple[int, ...] = attr("int_list", default=())
    index_vector_dim: int = attr("int")
    indices_are_sorted: bool = attr("bool", default=False)
    unique_indices: bool = attr("bool", default=False)


# ---------------------------------------------------------------- shape rules


def _check_indices(
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


def _check_batching(
    name: str,
    operand: ArrayShape,
    indices: ArrayShape,
    operand_dims: tuple[int, ...],
    indices_dims: tuple[int, ...],
    vector_dim: int,
) -> None:
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


def infer_gather(request: ShapeRequest) -> Shape:
    """Return batch dimensions of the indices with the slice dimensions at `offset_dims`."""
    operand, indices = (array_operand("gather", request, index) for index in range(2))
    a: GatherAttributes = request.attributes
    rank = operand.rank
    batch = _check_indices("gather", indices, a.index_vector_dim, a.start_index_map, rank)
    check_dims("gather", "collapsed dimension", a.collapsed_slice_dims, rank)
    check_sorted("gather", "collapsed_slice_dims", a.collapsed_slice_dims)
    _check_batching(
        "gather",
        operand,
        indices,
        a.operand_batching_dims,
        a.start_indices_batching_dims,
        a.index_vector_dim,
    )
    gone = a.collapsed_slice_dims + a.operand_batching_dims
    check_dims("gather", "collapsed or batching dimension", gone, rank)
    check_dims(
        "gather", "indexed or batching dimension", a.start_index_map + a.operand_batching_dims, rank
    )
    _check_slice_sizes(operand, a.slice_sizes, gone)
    kept = [size for dim, size in enumerate(a.slice_sizes) if dim not in gone]
    require(
        len(kept) == len(a.offset_dims),
        f"gather: slices have {len(kept)} dimensions, but offset_dims has {len(a.offset_dims)}",
    )
    check_dims("gather", "offset dimension", a.offset_dims, len(batch) + len(kept))
    check_sorted("gather", "offset_dims", a.offset_dims)
    dims = _interleaved(batch, kept, a.offset_dims)
    return ArrayShape(operand.dtype, dims)


def _check_slice_sizes(operand: ArrayShape, sizes: tuple[int, ...], gone: tuple[int, ...]) -> None:
    require(
        len(sizes) == operand.rank,
        f"gather: slice_sizes {list(sizes)} need one entry per dimension of "
        f"{operand.text_without_layout}",
    )
    for dim, size in enumerate(sizes):
        require(
            size >= 0 and (operand.dims[dim] == UNBOUNDED or size <= operand.dims[dim]),
            f"gather: slice size {size} is out of range for dimension {dim} of "
            f"{operand.text_without_layout}",
        )
        require(
            dim not in gone or size <= 1,
            f"gather: dimension {dim} is collapsed or batching, but has slice size {size}",
        )


def _interleaved(
    batch: Sequence[int], window: Sequence[int], window_dims: tuple[int, ...]
) -> tuple[int, ...]:
    """Return sizes with `window` at the positions `window_dims` and `batch` at the others."""
    outer, inner = iter(batch), iter(window)
    rank = len(batch) + len(window)
    return tuple(next(inner) if dim in window_dims else next(outer) for dim in range(rank))


def infer_scatter(request: ShapeRequest) -> Shape:
    """Return the operands' shapes, a tuple if there are several."""
    shapes = array_operands("scatter", request)
    require(
        len(shapes) % 2 == 1 and len(shapes) >= 3,
        f"scatter: expected operands, indices and as many updates, but found {len(shapes)}",
    )
    count = len(shapes) // 2
    operands, indices, updates = shapes[:count], shapes[count], shapes[count + 1 :]
    check_equal_dims("scatter", operands)
    check_equal_dims("scatter", updates)
    for operand, update in zip(operands, updates, strict=True):
        require(
            same_type(operand.dtype, update.dtype),
            f"scatter: updates {update.text_without_layout} do not have the element type of "
            f"{operand.text_without_layout}",
        )
    a: ScatterAttributes = request.attributes
    _check_scatter_dims(operands[0], indices, updates[0], a)
    inits = tuple(ArrayShape(operand.dtype) for operand in operands)
    results = reducer_results("scatter", request.called[0], updates, inits)
    return one_or_tuple(
        tuple(
            operand.with_dtype(result.dtype)
            for operand, result in zip(operands, results, strict=True)
        )
    )


def _check_scatter_dims(
    operand: ArrayShape, indices: ArrayShape, update: ArrayShape, a: ScatterAttributes
) -> None:
    rank = operand.rank
    batch = _check_indices(
        "scatter", indices, a.index_vector_dim, a.scatter_dims_to_operand_dims, rank
    )
    _check_batching(
        "scatter",
        operand,
        indices,
        a.input_batching_dims,
        a.scatter_indices_batching_dims,
        a.index_vector_dim,
    )
    gone = a.inserted_window_dims + a.input_batching_dims
    check_dims("scatter", "inserted or batching dimension", gone, rank)
    check_sorted("scatter", "inserted_window_dims", a.inserted_window_dims)
    check_dims("scatter", "update window dimension", a.update_window_dims, update.rank)
    check_sorted("scatter", "update_window_dims", a.update_window_dims)
    require(
        len(a.update_window_dims) + len(gone) == rank,
        f"scatter: {len(a.update_window_dims)} window and {len(gone)} inserted or batching "
        f"dimensions do not make the rank {rank} of {operand.text_without_layout}",
    )
    kept = [dim for dim in range(rank) if dim not in gone]
    for dim, update_dim in zip(kept, a.update_window_dims, strict=True):
        bound, size = operand.dims[dim], update.dims[update_dim]
        require(
            UNBOUNDED in (bound, size) or size <= bound,
            f"scatter: window size {size} of {update.text_without_layout} exceeds dimension {dim} "
            f"of {operand.text_without_layout}",
        )
    found = [size for dim, size in enumerate(update.dims) if dim not in a.update_window_dims]
    require(
        len(found) == len(batch)
        and all(same_size(m, n) for m, n in zip(found, batch, strict=True)),
        f"scatter: updates {update.text_without_layout} do not fit indices "
        f"{indices.text_without_layout}",
    )


# ---------------------------------------------------------------- evaluation


def _start_indices(indices: Array, vector_dim: int, index_map: tuple[int, ...]) -> dict[int, Array]:
    """Return, for each indexed operand dimension, an s64 array of start indices `[batch...]`.

    Unsigned values beyond s64 become its largest, which is out of bounds too.
    """
    if vector_dim == indices.ndim:
        indices = indices[..., np.newaxis]
    vectors = np.moveaxis(indices, vector_dim, -1)
    if vectors.dtype == np.uint64:
        vectors = np.minimum(vectors, np.uint64(np.iinfo(np.int64).max))
    return {dim: vectors[..., i].astype(np.int64) for i, dim in enumerate(index_map)}


def _batch_positions(
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


def _element_index(
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


def _evaluate_gather(inst: Instruction, operands: Operands, _call: CallFunction) -> HostValue:
    operand, indices = operands
    a: GatherAttributes = inst.attributes
    if 0 in inst.array.dims or operand.size == 0:
        return np.zeros(inst.array.dims, operand.dtype)
    vector_dim = a.index_vector_dim
    batch = indices.shape[:vector_dim] + indices.shape[vector_dim + 1 :]
    starts = {
        dim: np.clip(start, 0, operand.shape[dim] - a.slice_sizes[dim])
        for dim, start in _start_indices(indices, vector_dim, a.start_index_map).items()
    }
    starts |= _batch_positions(
        batch, a.operand_batching_dims, a.start_indices_batching_dims, vector_dim
    )
    gone = a.collapsed_slice_dims + a.operand_batching_dims
    kept = [dim for dim in range(operand.ndim) if dim not in gone]
    window = [a.slice_sizes[dim] for dim in kept]
    index = _element_index(operand.ndim, batch, window, kept, starts)
    found = np.broadcast_to(operand[tuple(index)], (*batch, *window))
    axes = _interleaved(
        range(len(batch)), range(len(batch), len(batch) + len(window)), a.offset_dims
    )
    return found.transpose(axes)


def _evaluate_scatter(inst: Instruction, operands: Operands, call: CallFunction) -> HostValue:
    count = len(operands) // 2
    targets, indices, updates = operands[:count], operands[count], operands[count + 1 :]
    if targets[0].size == 0:  # no place to write to, not even at an inserted dimension
        return tuple(targets) if count > 1 else targets[0]
    a: ScatterAttributes = inst.attributes
    vector_dim = a.index_vector_dim
    batch = indices.shape[:vector_dim] + indices.shape[vector_dim + 1 :]
    gone = a.inserted_window_dims + a.input_batching_dims
    kept = [dim for dim in range(targets[0].ndim) if dim not in gone]
    window = [updates[0].shape[dim] for dim in a.update_window_dims]
    extent = dict(zip(kept, window, strict=True))
    starts = _start_indices(indices, vector_dim, a.scatter_dims_to_operand_dims)
    inside = np.ones(batch, bool)
    for dim, start in starts.items():
        inside &= (start >= 0) & (start <= targets[0].shape[dim] - extent.get(dim, 1))
    starts = {dim: np.where(inside, start, 0) for dim, start in starts.items()}
    starts |= _batch_positions(
        batch, a.input_batching_dims, a.scatter_indices_batching_dims, vector_dim
    )
    index = _element_index(targets[0].ndim, batch, window, kept, starts)
    places = np.zeros((*batch, *window), np.int64)
    for dim, part in enumerate(index):
        places = places + part * prod(targets[0].shape[dim + 1 :])
    chosen = np.broadcast_to(inside.reshape((*batch, *[1] * len(window))), places.shape)
    shapes = inst.shape.elements if isinstance(inst.shape, TupleShape) else (inst.shape,)
    dtypes = [shape.dtype for shape in shapes if isinstance(shape, ArrayShape)]
    scatter_dims = [dim for dim in range(updates[0].ndim) if dim not in a.update_window_dims]
    order = (*scatter_dims, *a.update_window_dims)
    results = combine_at(
        call,
        inst.called[0],
        tuple(narrowed(t, dtype).reshape(-1) for t, dtype in zip(targets, dtypes, strict=True)),
        places[chosen],
        tuple(
            narrowed(update, dtype).transpose(order)[chosen]
            for update, dtype in zip(updates, dtypes, strict=True)
        ),
        addends=prod(batch),
    )
    shaped = tuple(result.reshape(targets[0].shape) for result in results)
    return shaped if count > 1 else shaped[0]


# ---------------------------------------------------------------- factors


def _factors_of_gather(draft: FactorDraft, inst: Instruction) -> None:
    at = inst.attributes
    operand, indices = (o.array for o in inst.operands)
    source, starts = draft.operands
    result = draft.results[0]
    rank = len(result)
    batch = [dim for dim in range(rank) if dim not in at.offset_dims]
    index_dims = [dim for dim in range(indices.rank) if dim != at.index_vector_dim]
    for dim, index_dim in zip(batch, index_dims, strict=True):
        result[dim] = starts[index_dim] = draft.factor(indices.dims[index_dim])
    pairs = zip(at.operand_batching_dims, at.start_indices_batching_dims, strict=True)
    for dim, index_dim in pairs:
        source[dim] = starts[index_dim]
    dropped = (*at.collapsed_slice_dims, *at.operand_batching_dims)
    windows = [dim for dim in range(operand.rank) if dim not in dropped]
    for dim, target in zip(windows, at.offset_dims, strict=True):
        if at.slice_sizes[dim] == operand.dims[dim]:
            source[dim] = result[target] = draft.factor(operand.dims[dim])


def _factors_of_scatter(draft: FactorDraft, inst: Instruction) -> None:
    at = inst.attributes
    count = len(inst.operands) // 2
    operand, indices, update = (inst.operands[i].array for i in (0, count, count + 1))
    sources, starts = draft.operands[:count], draft.operands[count]
    updates = draft.operands[count + 1 :]
    dropped = (*at.inserted_window_dims, *at.input_batching_dims)
    windows = [dim for dim in range(operand.rank) if dim not in dropped]
    for dim, window in zip(windows, at.update_window_dims, strict=True):
        if update.dims[window] == operand.dims[dim]:
            factor = draft.factor(operand.dims[dim])
            for side in (*sources, *draft.results):
                side[dim] = factor
            for side in updates:
                side[window] = factor
    scattered = [dim for dim in range(update.rank) if dim not in at.update_window_dims]
    index_dims = [dim for dim in range(indices.rank) if dim != at.index_vector_dim]
    pairs = zip(at.input_batching_dims, at.scatter_indices_batching_dims, strict=True)
    for dim, index_dim in pairs:
        factor = draft.factor(operand.dims[dim])
        for side in (*sources, *draft.results):
            side[dim] = factor
        starts[index_dim] = factor
        for side in updates:
            side[scattered[index_dims.index(index_dim)]] = factor


# ---------------------------------------------------------------- rows

GATHER = define(
    reads="gather(x, i) takes a slice of x at every index vector of i, clamped to fit",
    infer=infer_gather,
    attributes=GatherAttributes,
    evaluate=_evaluate_gather,
    factors=_factors_of_gather,
    weight=4,
    data_movement=True,
    gpu_weight=12,
)

SCATTER = define(
    reads="scatter(x, i, u) combines windows u into x at i; windows out of bounds are skipped",
    arity=None,
    infer=infer_scatter,
    attributes=ScatterAttributes,
    calls=(CalledRole("to_apply"),),
    evaluate=_evaluate_scatter,
    factors=_factors_of_scatter,
)
