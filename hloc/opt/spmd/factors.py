"""Factor rules: which dimensions of operands and results of an instruction are split together.

As in einsum, every dimension has a factor, and dimensions of the same factor are split along the
same axes: `dot(f32[i,k], f32[k,j]) -> f32[i,j]`. A dimension without a factor has to be whole.
One rule serves the propagation of shardings and the partitioner. After Shardy's sharding rules
(openxla/shardy, `op_sharding_rule_registry.cc`) and the GSPMD paper (Xu et al., 2021).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from math import gcd
from typing import TypeAlias

from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.shapes import ArrayShape, TupleShape

WHOLE = -1
"""Stands for the factor of a dimension that has to be whole."""

Factors: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FactorRule:
    """The factors of one instruction.

    Attributes:
        operands: per operand, the factor of each dimension.
        results: per array of the result, likewise.
        sizes: the elements along each factor.
        reductions: factors of operands that are summed; the parts have to be combined.
        even: factors that can only be split into equal parts.
    """

    operands: tuple[Factors, ...]
    results: tuple[Factors, ...]
    sizes: tuple[int, ...]
    reductions: frozenset[int] = frozenset()
    even: frozenset[int] = frozenset()


@dataclass(slots=True)
class _Draft:
    """A rule in the making."""

    operands: list[list[int]]
    results: list[list[int]]
    sizes: list[int] = field(default_factory=list)
    reductions: set[int] = field(default_factory=set)
    even: set[int] = field(default_factory=set)

    def factor(self, size: int) -> int:
        """Return a new factor."""
        self.sizes.append(size)
        return len(self.sizes) - 1

    def rule(self) -> FactorRule:
        return FactorRule(
            tuple(map(tuple, self.operands)),
            tuple(map(tuple, self.results)),
            tuple(self.sizes),
            frozenset(self.reductions),
            frozenset(self.even),
        )


def factor_rule(inst: Instruction) -> FactorRule:
    """Return the rule of `inst`, whose operands are arrays; at worst every dimension is whole."""
    shapes = inst.shape.elements if isinstance(inst.shape, TupleShape) else (inst.shape,)
    draft = _Draft(
        [[WHOLE] * operand.array.rank for operand in inst.operands],
        [[WHOLE] * shape.rank for shape in shapes if isinstance(shape, ArrayShape)],
    )
    if inst.opcode.elementwise or inst.is_a("map"):
        _same_dims(draft, inst)
    else:
        RULES.get(inst.opcode.name, _none)(draft, inst)
    return draft.rule()


def _none(_draft: _Draft, _inst: Instruction) -> None:
    """Leave all dimensions whole."""


def _pass_through(draft: _Draft, dims: Sequence[int], sizes: Sequence[int]) -> None:
    """Give dimensions `dims` of all operands of this rank, and of all results, factors."""
    rank = len(sizes)
    for dim in dims:
        factor = draft.factor(sizes[dim])
        for side in (*draft.operands, *draft.results):
            if len(side) == rank:
                side[dim] = factor


def _same_dims(draft: _Draft, inst: Instruction) -> None:
    result = draft.results[0]
    sizes = inst.array.dims
    if all(o.array.dims in (sizes, ()) for o in inst.operands):
        _pass_through(draft, range(len(result)), sizes)


def _leading_dims(draft: _Draft, inst: Instruction) -> None:
    """Link all dimensions but the one that holds the parts of elements."""
    rank = min(inst.operands[0].array.rank, inst.array.rank)
    for dim in range(rank):
        draft.operands[0][dim] = draft.results[0][dim] = draft.factor(inst.array.dims[dim])


def _broadcast(draft: _Draft, inst: Instruction) -> None:
    for dim, size in enumerate(inst.array.dims):
        draft.results[0][dim] = draft.factor(size)
    for dim, target in enumerate(inst.attributes.dimensions):
        if inst.operands[0].array.dims[dim] == inst.array.dims[target]:
            draft.operands[0][dim] = draft.results[0][target]


def _transpose(draft: _Draft, inst: Instruction) -> None:
    for dim, source in enumerate(inst.attributes.dimensions):
        factor = draft.factor(inst.array.dims[dim])
        draft.results[0][dim] = draft.operands[0][source] = factor


def _reshape(draft: _Draft, inst: Instruction) -> None:
    """Split the major dimensions of groups of dimensions with equal products, in equal parts."""
    old, new = inst.operands[0].array.dims, inst.array.dims
    if 0 in old:
        return
    i = j = 0
    while i < len(old) and j < len(new):
        first_i, first_j = i, j
        m, n = old[i], new[j]
        while m != n:
            if m < n:
                i += 1
                m *= old[i]
            else:
                j += 1
                n *= new[j]
        group_i = [d for d in range(first_i, i + 1) if old[d] > 1]
        group_j = [d for d in range(first_j, j + 1) if new[d] > 1]
        if group_i and group_j:
            a, b = group_i[0], group_j[0]
            factor = draft.factor(gcd(old[a], new[b]))
            draft.operands[0][a] = draft.results[0][b] = factor
            if len(group_i) + len(group_j) > 2:
                draft.even.add(factor)
        i, j = i + 1, j + 1


def _dot(draft: _Draft, inst: Instruction) -> None:
    at, (lhs, rhs) = inst.attributes, (operand.array for operand in inst.operands[:2])
    if len(inst.operands) > 2:
        return
    left, right = draft.operands
    result: list[int] = []
    for a, b in zip(at.lhs_batch_dims, at.rhs_batch_dims, strict=True):
        left[a] = right[b] = draft.factor(lhs.dims[a])
        result.append(left[a])
    for a, b in zip(at.lhs_contracting_dims, at.rhs_contracting_dims, strict=True):
        left[a] = right[b] = draft.factor(lhs.dims[a])
        draft.reductions.add(left[a])
    for side, shape in ((left, lhs), (right, rhs)):
        for dim in range(shape.rank):
            if side[dim] == WHOLE:
                side[dim] = draft.factor(shape.dims[dim])
                result.append(side[dim])
    draft.results[0] = result


def _reduce(draft: _Draft, inst: Instruction) -> None:
    reduced = inst.attributes.dimensions
    count = len(inst.operands) // 2
    sizes = inst.operands[0].array.dims
    kept = 0
    for dim, size in enumerate(sizes):
        factor = draft.factor(size)
        for operand in draft.operands[:count]:
            operand[dim] = factor
        if dim in reduced:
            draft.reductions.add(factor)
        else:
            for result in draft.results:
                result[kept] = factor
            kept += 1


def _convolution(draft: _Draft, inst: Instruction) -> None:
    at = inst.attributes
    if at.batch_group_count != 1 or at.feature_group_count != 1:
        return
    labels = at.dim_labels
    lhs, rhs = (operand.array for operand in inst.operands[:2])
    left, right = draft.operands[:2]
    result = draft.results[0]
    batch = draft.factor(lhs.dims[labels.input_batch])
    left[labels.input_batch] = result[labels.output_batch] = batch
    out = draft.factor(rhs.dims[labels.kernel_output_feature])
    right[labels.kernel_output_feature] = result[labels.output_feature] = out
    depth = draft.factor(lhs.dims[labels.input_feature])
    left[labels.input_feature] = right[labels.kernel_input_feature] = depth
    draft.reductions.add(depth)


def _gather(draft: _Draft, inst: Instruction) -> None:
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


def _scatter(draft: _Draft, inst: Instruction) -> None:
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


def _dynamic_slice(draft: _Draft, inst: Instruction) -> None:
    sizes, whole = inst.attributes.dynamic_slice_sizes, inst.operands[0].array.dims
    _kept(draft, sizes, whole, (draft.operands[0],))


def _dynamic_update_slice(draft: _Draft, inst: Instruction) -> None:
    sizes, whole = inst.operands[1].array.dims, inst.array.dims
    _kept(draft, sizes, whole, draft.operands[:2])


def _kept(
    draft: _Draft, sizes: Sequence[int], whole: Sequence[int], sides: Sequence[list[int]]
) -> None:
    """Give the dimensions factors in which the slice is as large as the whole."""
    for dim, (size, full) in enumerate(zip(sizes, whole, strict=True)):
        if size == full:
            factor = draft.factor(full)
            for side in (*sides, *draft.results):
                side[dim] = factor


def _slice(draft: _Draft, inst: Instruction) -> None:
    whole = inst.operands[0].array.dims
    dims = [
        dim
        for dim, part in enumerate(inst.attributes.slice)
        if (part.start, part.limit, part.stride) == (0, whole[dim], 1)
    ]
    _pass_through(draft, dims, whole)


def _pad(draft: _Draft, inst: Instruction) -> None:
    dims = [
        dim
        for dim, pad in enumerate(inst.attributes.padding)
        if (pad.low, pad.high, pad.interior) == (0, 0, 0)
    ]
    _pass_through(draft, dims, inst.array.dims)


def _others(draft: _Draft, inst: Instruction) -> None:
    """Dimensions that `dimensions` does not name."""
    sizes = inst.operands[0].array.dims
    _pass_through(draft, _except(sizes, inst.attributes.dimensions), sizes)


def _except(sizes: Sequence[int], dims: Sequence[int]) -> list[int]:
    return [dim for dim in range(len(sizes)) if dim not in dims]


def _window(draft: _Draft, inst: Instruction) -> None:
    """Dimensions in which windows hold one element, and the result is as large as the operand."""
    sizes = inst.operands[0].array.dims
    dims = [
        dim
        for dim, window in enumerate(inst.attributes.window.dimensions)
        if (window.size, window.stride, window.pad_low, window.pad_high) == (1, 1, 0, 0)
        and window.base_dilation == 1
    ]
    _pass_through(draft, dims, sizes)


def _all_but_last(draft: _Draft, inst: Instruction) -> None:
    sizes = inst.operands[0].array.dims
    _pass_through(draft, range(len(sizes) - 1), sizes)


def _fft(draft: _Draft, inst: Instruction) -> None:
    sizes = inst.operands[0].array.dims
    _pass_through(draft, range(len(sizes) - len(inst.attributes.fft_length)), sizes)


def _cholesky(draft: _Draft, inst: Instruction) -> None:
    _pass_through(draft, range(inst.array.rank - 2), inst.array.dims)


def _triangular_solve(draft: _Draft, inst: Instruction) -> None:
    rank = inst.array.rank
    _pass_through(draft, range(rank - 2), inst.array.dims)
    free = rank - 1 if inst.attributes.left_side else rank - 2
    draft.operands[1][free] = draft.results[0][free] = draft.factor(inst.array.dims[free])


def _iota(draft: _Draft, inst: Instruction) -> None:
    for dim, size in enumerate(inst.array.dims):
        draft.results[0][dim] = draft.factor(size)


RULES: dict[str, Callable[[_Draft, Instruction], None]] = {
    "bitcast-convert": _leading_dims,
    "broadcast": _broadcast,
    "cholesky": _cholesky,
    "concatenate": _others,
    "convolution": _convolution,
    "dot": _dot,
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "fft": _fft,
    "gather": _gather,
    "iota": _iota,
    "pad": _pad,
    "reduce": _reduce,
    "reduce-window": _window,
    "reshape": _reshape,
    "reverse": _others,
    "scatter": _scatter,
    "select-and-scatter": _window,
    "slice": _slice,
    "sort": _others,
    "topk": _all_but_last,
    "transpose": _transpose,
    "triangular-solve": _triangular_solve,
}
"""The rules of opcodes that are not elementwise; others leave every dimension whole."""
