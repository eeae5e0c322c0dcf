"""Opcodes that sum over dynamic dimensions: reductions, windows, dots, convolutions.

Elements outside the present size are masked by the neutral element, for products by zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hloc.ir.instruction import Instruction
from hloc.ops.contraction import free_dims
from hloc.ops.folding import identity_of, recognised_reducer
from hloc.opt.dynamic.scope import Scope, refuse


def reduce(scope: Scope, inst: Instruction) -> None:
    """Elements outside the present size become the neutral element; kept dimensions keep theirs."""
    count, dims = len(inst.operands) // 2, list(inst.attributes.dimensions)
    masked = _masked_inputs(scope, inst, count, dims)
    kept = [dim for dim in range(masked[0].array.rank) if dim not in dims]
    sizes = sizes_of_any(scope, inst.operands[:count])
    scope.computation.set_operands(inst, [*masked, *inst.operands[count:]])
    found = {kept.index(dim): size for dim, size in sizes.items() if dim in kept}
    scope.make_all_static(inst, found)


def _masked_inputs(
    scope: Scope, inst: Instruction, count: int, dims: list[int]
) -> list[Instruction]:
    """Return the inputs of a reduction, masked along `dims` by the neutral element."""
    sizes = sizes_of_any(scope, inst.operands[:count])
    masked = []
    for operand, init in zip(inst.operands[:count], inst.operands[count:], strict=True):
        scope.leaves[operand] = {**scope.leaves.get(operand, {}), (): sizes}
        masked.append(scope.masked(operand, _neutral(scope, inst, init, operand), dims))
    return masked


def _neutral(
    scope: Scope, inst: Instruction, init: Instruction, operand: Instruction
) -> Instruction:
    """Return the neutral element of the reducer: by contract, the init value."""
    kind = recognised_reducer(inst.called[0])
    dtype = operand.array.dtype
    if kind and kind != "second":
        return scope.b.constant(np.asarray(identity_of(kind, dtype.numpy)), dtype)
    return scope.b.convert(init, dtype)


def sizes_of_any(scope: Scope, operands: Sequence[Instruction]) -> dict[int, Instruction]:
    sizes: dict[int, Instruction] = {}
    for operand in operands:
        for dim, size in scope.sizes(operand).items():
            sizes.setdefault(dim, size)
    return sizes


def reduce_window(scope: Scope, inst: Instruction) -> None:
    """Windows are counted by the present size; elements outside become the neutral element."""
    count = len(inst.operands) // 2
    sizes = sizes_of_any(scope, inst.operands[:count])
    windows = inst.attributes.window.dimensions
    found = {dim: _windows(scope, size, windows[dim]) for dim, size in sizes.items()}
    masked = _masked_inputs(scope, inst, count, list(sizes))
    scope.computation.set_operands(inst, [*masked, *inst.operands[count:]])
    scope.make_all_static(inst, found)


def _windows(scope: Scope, size: Instruction, d: Any) -> Instruction:
    """Return how many windows fit on `size` elements."""
    b = scope.b
    extent = size
    if d.base_dilation > 1:
        last = b.maximum(b.subtract(size, scope.number(1)), scope.number(0))
        some = b.minimum(size, scope.number(1))
        extent = b.add(b.multiply(last, scope.number(d.base_dilation)), some)
    taken = (d.size - 1) * d.window_dilation + 1 - d.pad_low - d.pad_high
    if taken == d.stride == 1:
        return extent
    left = b.add(extent, scope.number(d.stride - taken))
    count = left if d.stride == 1 else b.divide(left, scope.number(d.stride))
    return b.maximum(count, scope.number(0))


def dot(scope: Scope, inst: Instruction) -> None:
    """Mask the contracted dimensions of both sides; batch and free dimensions keep their sizes."""
    a = inst.attributes
    lhs, rhs = inst.operands
    pairs = list(zip(a.lhs_contracting_dims, a.rhs_contracting_dims, strict=True))
    lhs_sizes, rhs_sizes = dict(scope.sizes(lhs)), dict(scope.sizes(rhs))
    for left, right in pairs:  # both sides are masked: zero times infinity is NaN
        size = lhs_sizes.get(left, rhs_sizes.get(right))
        if size is not None:
            lhs_sizes[left] = rhs_sizes[right] = size
    scope.leaves[lhs] = {(): lhs_sizes}
    if rhs is not lhs:
        scope.leaves[rhs] = {(): rhs_sizes}
    left_dims, right_dims = [p[0] for p in pairs], [p[1] for p in pairs]
    operands = [
        scope.masked(lhs, scope.zero(lhs), left_dims),
        scope.masked(rhs, scope.zero(rhs), right_dims),
    ]
    scope.computation.set_operands(inst, operands)
    free_left = free_dims(lhs.array.rank, a.lhs_batch_dims, a.lhs_contracting_dims)
    free_right = free_dims(rhs.array.rank, a.rhs_batch_dims, a.rhs_contracting_dims)
    found = [
        lhs_sizes.get(x, rhs_sizes.get(y))
        for x, y in zip(a.lhs_batch_dims, a.rhs_batch_dims, strict=True)
    ]
    found += [lhs_sizes.get(dim) for dim in free_left]
    found += [rhs_sizes.get(dim) for dim in free_right]
    scope.make_static(inst, {dim: size for dim, size in enumerate(found) if size is not None})


def convolution(scope: Scope, inst: Instruction) -> None:
    """Mask features and spatial dimensions of the input, and the input features of the kernel.

    Refused where a dynamic size would change the window or the groups.
    """
    if len(inst.operands) != 2:
        refuse(inst, "an operand is sparse")
    a, (lhs, rhs) = inst.attributes, inst.operands
    d = a.dim_labels
    lhs_sizes, rhs_sizes = scope.sizes(lhs), scope.sizes(rhs)
    if any(dim in rhs_sizes for dim in d.kernel_spatial):
        refuse(inst, "the size of the kernel is part of the window")
    if a.feature_group_count > 1 and d.input_feature in lhs_sizes:
        refuse(inst, "features are grouped")
    if a.batch_group_count > 1 and d.input_batch in lhs_sizes:
        refuse(inst, "batches are grouped")
    found = {}
    if d.input_batch in lhs_sizes:
        found[d.output_batch] = lhs_sizes[d.input_batch]
    if d.kernel_output_feature in rhs_sizes:
        found[d.output_feature] = rhs_sizes[d.kernel_output_feature]
    windows = () if a.window is None else a.window.dimensions
    for place, dim, window in zip(d.output_spatial, d.input_spatial, windows, strict=True):
        if dim in lhs_sizes:
            found[place] = _windows(scope, lhs_sizes[dim], window)
    feature = lhs_sizes.get(d.input_feature, rhs_sizes.get(d.kernel_input_feature))
    if feature is not None:
        lhs_sizes = {**lhs_sizes, d.input_feature: feature}
        scope.leaves[rhs] = {(): {**rhs_sizes, d.kernel_input_feature: feature}}
    scope.leaves[lhs] = {(): lhs_sizes}
    counted = [d.input_feature, *d.input_spatial]
    operands = [
        scope.masked(lhs, scope.zero(lhs), counted),
        scope.masked(rhs, scope.zero(rhs), [d.kernel_input_feature]),
    ]
    scope.computation.set_operands(inst, operands)
    scope.make_static(inst, found)
