"""Scatter: windows combined into an array at index vectors.

Source: XLA operation semantics of Scatter. It skips a window of which any part is out of bounds.
"""

from __future__ import annotations

from math import prod

import numpy as np

from hloc.ir.attribute_fields import attr
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
from hloc.ops.array_values import narrowed
from hloc.ops.checks import (
    array_operands,
    check_dims,
    check_sorted,
    require,
    same_size,
    same_type,
)
from hloc.ops.folding import combine_at
from hloc.ops.index_vectors import (
    batch_positions,
    check_batching,
    check_indices,
    element_index,
    start_indices,
)
from hloc.ops.reducers import check_equal_dims, one_or_tuple, reducer_results
from hloc.shapes import UNBOUNDED, ArrayShape, Shape, TupleShape


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
    """Raise `HloError` unless indices, windows and updates fit together as the attributes say."""
    rank = operand.rank
    batch = check_indices(
        "scatter", indices, a.index_vector_dim, a.scatter_dims_to_operand_dims, rank
    )
    check_batching(
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


def _evaluate_scatter(inst: Instruction, operands: Operands, call: CallFunction) -> HostValue:
    """Combine updates into the flat targets, in the order of their positions in `updates`.

    All targets of a variadic scatter have the same shape, so one list of places serves them all.
    """
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
    starts = start_indices(indices, vector_dim, a.scatter_dims_to_operand_dims)
    inside = np.ones(batch, bool)
    for dim, start in starts.items():
        inside &= (start >= 0) & (start <= targets[0].shape[dim] - extent.get(dim, 1))
    starts = {dim: np.where(inside, start, 0) for dim, start in starts.items()}
    starts |= batch_positions(
        batch, a.input_batching_dims, a.scatter_indices_batching_dims, vector_dim
    )
    index = element_index(targets[0].ndim, batch, window, kept, starts)
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


def _factors_of_scatter(draft: FactorDraft, inst: Instruction) -> None:
    """Factors: window dimensions that are updated whole, and batching dimensions."""
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


SCATTER = define(
    reads="scatter(x, i, u) combines windows u into x at i; windows out of bounds are skipped",
    arity=None,
    infer=infer_scatter,
    attributes=ScatterAttributes,
    calls=(CalledRole("to_apply"),),
    evaluate=_evaluate_scatter,
    factors=_factors_of_scatter,
)
