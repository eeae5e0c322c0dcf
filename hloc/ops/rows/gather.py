"""Gather: slices at index vectors.

Source: XLA operation semantics of Gather. It clamps its start indices.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hloc.ir.attribute_fields import attr
from hloc.ir.factors import FactorDraft
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import (
    CallFunction,
    HostValue,
    Operands,
    ShapeRequest,
    define,
)
from hloc.lazy_dataclass import dataclass
from hloc.ops.checks import (
    array_operand,
    check_dims,
    check_sorted,
    require,
)
from hloc.ops.index_vectors import (
    batch_positions,
    check_batching,
    check_indices,
    element_index,
    start_indices,
)
from hloc.shapes import UNBOUNDED, ArrayShape, Shape


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


def infer_gather(request: ShapeRequest) -> Shape:
    """Return batch dimensions of the indices with the slice dimensions at `offset_dims`."""
    operand, indices = (array_operand("gather", request, index) for index in range(2))
    a: GatherAttributes = request.attributes
    rank = operand.rank
    batch = check_indices("gather", indices, a.index_vector_dim, a.start_index_map, rank)
    check_dims("gather", "collapsed dimension", a.collapsed_slice_dims, rank)
    check_sorted("gather", "collapsed_slice_dims", a.collapsed_slice_dims)
    check_batching(
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


def _evaluate_gather(inst: Instruction, operands: Operands, _call: CallFunction) -> HostValue:
    """Evaluate as one NumPy index per operand dimension: clamped start plus position in the window.

    The result of the indexing is `[batch..., window...]`; `offset_dims` says where the window's
    dimensions go.
    """
    operand, indices = operands
    a: GatherAttributes = inst.attributes
    if 0 in inst.array.dims or operand.size == 0:
        return np.zeros(inst.array.dims, operand.dtype)
    vector_dim = a.index_vector_dim
    batch = indices.shape[:vector_dim] + indices.shape[vector_dim + 1 :]
    starts = {
        dim: np.clip(start, 0, operand.shape[dim] - a.slice_sizes[dim])
        for dim, start in start_indices(indices, vector_dim, a.start_index_map).items()
    }
    starts |= batch_positions(
        batch, a.operand_batching_dims, a.start_indices_batching_dims, vector_dim
    )
    gone = a.collapsed_slice_dims + a.operand_batching_dims
    kept = [dim for dim in range(operand.ndim) if dim not in gone]
    window = [a.slice_sizes[dim] for dim in kept]
    index = element_index(operand.ndim, batch, window, kept, starts)
    found = np.broadcast_to(operand[tuple(index)], (*batch, *window))
    axes = _interleaved(
        range(len(batch)), range(len(batch), len(batch) + len(window)), a.offset_dims
    )
    return found.transpose(axes)


def _factors_of_gather(draft: FactorDraft, inst: Instruction) -> None:
    """Factors: batch dimensions of the indices, and window dimensions that are taken whole."""
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
