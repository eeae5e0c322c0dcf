"""Expand ragged and scaled dots into dots with masks and scaled operands."""

from __future__ import annotations

from typing import Any

import numpy as np

from hloc.dtypes import F32, F64, S32
from hloc.ir.instruction import Instruction
from hloc.ops.builder import Builder
from hloc.ops.contraction import free_dims
from hloc.opt.expander import Expander
from hloc.shapes import ArrayShape


class RaggedDotRewriter(Expander):
    """Replace `ragged-dot` by one dot over all groups and a mask.

    Cost: the multiplications of the ragged dot times the number of groups.
    """

    acts_on = frozenset({"ragged-dot"})

    def expand(self, inst: Instruction) -> Instruction:
        """Return the dot, by the kind of the ragged dimension of lhs.

        - batch: the groups are batches already, an ordinary dot;
        - contracting: lhs is repeated for each group, with zeros outside of it, `[groups, m, n]`;
        - free: the rows of lhs meet every group, and each keeps the result of its own.
        """
        a, b = inst.attributes, Builder(inst.computation)
        lhs, rhs, sizes = inst.operands
        (ragged,) = a.lhs_ragged_dims
        if ragged in a.lhs_batch_dims:
            return _dot(b, inst, lhs, rhs, inst.array.dims, _numbers(a))
        groups = sizes.array.dims[-1]
        if ragged in a.lhs_contracting_dims:
            dims = (*lhs.array.dims, groups)
            mask = _group_mask(b, inst, dims)
            wide = b.broadcast(lhs, dims, range(lhs.array.rank))
            chosen = b.select(mask, wide, b.broadcast(_zero(b, lhs), dims))
            count = len(a.lhs_batch_dims)
            free = len(free_dims(lhs.array.rank, a.lhs_batch_dims, a.lhs_contracting_dims))
            # The group dimension of the result: the last free dimension of lhs.
            place = count + free
            rest = list(inst.array.dims[1:])
            result = _dot(b, inst, chosen, rhs, [*rest[:place], groups, *rest[place:]], _numbers(a))
            order = [place, *(d for d in range(len(rest) + 1) if d != place)]
            return b.transpose(result, order)
        return _ragged_rows(b, inst, groups)


class ScaledDotRewriter(Expander):
    """Replace `scaled-dot` by a dot of operands times their scales, in f32 (f64 if one is)."""

    acts_on = frozenset({"scaled-dot"})

    def expand(self, inst: Instruction) -> Instruction:
        b = Builder(inst.computation)
        lhs, rhs, lhs_scale, rhs_scale = inst.operands
        left, right = _times_scale(b, lhs, lhs_scale), _times_scale(b, rhs, rhs_scale)
        wide = max(left.array.dtype, right.array.dtype, key=lambda dtype: dtype.bits)
        left, right = b.convert(left, wide), b.convert(right, wide)
        shape = ArrayShape(wide, inst.array.dims)
        product = b.instruction("dot", (left, right), shape=shape, **_numbers(inst.attributes))
        return b.convert(product, inst.array.dtype)


# ---------------------------------------------------------------- ragged-dot


def _ragged_rows(b: Builder, inst: Instruction, groups: int) -> Instruction:
    """Return the dot with every group, masked so that each row keeps its own group."""
    a = inst.attributes
    lhs, rhs, _ = inst.operands
    (group_dim,) = a.rhs_group_dims
    free = free_dims(lhs.array.rank, a.lhs_batch_dims, a.lhs_contracting_dims)
    rhs_free = free_dims(rhs.array.rank, a.rhs_batch_dims, a.rhs_contracting_dims)
    kept = [*a.lhs_batch_dims, *free]
    dims = [lhs.array.dims[d] for d in kept] + [rhs.array.dims[d] for d in rhs_free]
    place = len(kept) + rhs_free.index(group_dim)
    every = _dot(b, inst, lhs, rhs, dims, _numbers(a))
    gone = [d for d in range(lhs.array.rank) if d not in kept]
    # Contracted dimensions may have size 0, but the mask does not depend on them.
    mask_dims = [1 if d in gone else n for d, n in enumerate(lhs.array.dims)] + [groups]
    mask = _group_mask(b, inst, tuple(mask_dims))
    order = [*kept, lhs.array.rank]
    rows = b.transpose(mask, [*gone, *order])
    rows = b.reshape(rows, [mask_dims[d] for d in order])
    chosen = b.select(
        b.broadcast(rows, dims, [*range(len(kept)), place]),
        every,
        b.broadcast(_zero(b, every), dims),
    )
    return b.reduce(
        [chosen], [_zero(b, every)], [place], b.scalar_function("add", every.array.dtype)
    )


def _group_mask(b: Builder, inst: Instruction, dims: tuple[int, ...]) -> Instruction:
    """Return `pred[lhs..., groups]`: whether the element is in the group."""
    a = inst.attributes
    lhs, _, sizes = inst.operands
    (ragged,) = a.lhs_ragged_dims
    sizes = b.convert(sizes, S32)
    before = sizes.array.dims
    groups = before[-1]
    outer = _outer(inst) if len(before) > 1 else []
    square = (*before, groups)
    rank = len(square)
    earlier = b.compare(b.iota(S32, square, rank - 2), b.iota(S32, square, rank - 1), "LE")
    spread = b.broadcast(sizes, square, range(rank - 1))
    counted = b.select(earlier, spread, b.broadcast(b.constant(0, S32), square))
    ends = b.reduce(
        [counted], [b.constant(0, S32)], [rank - 2], b.scalar_function("add", counted.array.dtype)
    )
    places = [*outer, lhs.array.rank]
    end = b.broadcast(ends, dims, places)
    start = b.subtract(end, b.broadcast(sizes, dims, places))
    position = b.iota(S32, dims, ragged)
    return b.logical_and(b.compare(position, start, "GE"), b.compare(position, end, "LT"))


def _outer(inst: Instruction) -> list[int]:
    """Return the lhs dimensions with separate group sizes, in the order of the sizes."""
    a, lhs = inst.attributes, inst.operands[0]
    (ragged,) = a.lhs_ragged_dims
    if ragged in a.lhs_contracting_dims:
        before = a.lhs_contracting_dims[: a.lhs_contracting_dims.index(ragged)]
        return [*a.lhs_batch_dims, *before]
    free = free_dims(lhs.array.rank, a.lhs_batch_dims, a.lhs_contracting_dims)
    return [*a.lhs_batch_dims, *free[: free.index(ragged)]]


def _numbers(a: Any) -> dict[str, Any]:
    return {
        "lhs_batch_dims": a.lhs_batch_dims,
        "lhs_contracting_dims": a.lhs_contracting_dims,
        "rhs_batch_dims": a.rhs_batch_dims,
        "rhs_contracting_dims": a.rhs_contracting_dims,
    }


def _dot(
    b: Builder, inst: Instruction, lhs: Instruction, rhs: Instruction, dims: Any, numbers: Any
) -> Instruction:
    shape = ArrayShape(inst.array.dtype, tuple(dims))
    return b.instruction("dot", (lhs, rhs), shape=shape, **numbers)


def _zero(b: Builder, like: Instruction) -> Instruction:
    dtype = like.array.dtype
    return b.constant(np.zeros((), dtype.numpy), dtype)


# ---------------------------------------------------------------- scaled-dot


def _times_scale(b: Builder, array: Instruction, scale: Instruction) -> Instruction:
    """Return `array` times its scale, each scale repeated over its block."""
    wide = F64 if F64 in (array.array.dtype, scale.array.dtype) else F32
    array, scale = b.convert(array, wide), b.convert(scale, wide)
    dims = array.array.dims
    if not scale.array.rank:
        return b.multiply(array, b.broadcast(scale, dims))
    blocks: list[int] = []
    places = []
    for size, parts in zip(dims, scale.array.dims, strict=True):
        places.append(len(blocks))
        blocks += [parts, size // max(1, parts)]
    spread = b.reshape(b.broadcast(scale, blocks, places), dims)
    return b.multiply(array, spread)
