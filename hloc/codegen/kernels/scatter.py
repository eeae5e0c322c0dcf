"""Scatter: where windows of updates lie, and how they are combined."""

from __future__ import annotations

from collections.abc import Sequence

from hloc.codegen.builder.index import Index
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.elements.remap import index_vector
from hloc.codegen.kernels.context import KernelContext
from hloc.dtypes import S64
from hloc.ir.instruction import Instruction


def window_dimensions(root: Instruction) -> list[int | None]:
    """Return, per dimension of the operand, the dimension of the updates that runs along it."""
    a = root.attributes
    window = iter(a.update_window_dims)
    skipped = {*a.inserted_window_dims, *a.input_batching_dims}
    return [None if dim in skipped else next(window) for dim in range(root.operands[0].array.rank)]


def first_of_window(
    k: KernelContext, indices: Instruction, batch: list[IndexValue]
) -> list[IndexValue]:
    """Return the start of the window of `batch`, without bounds checks."""
    a = k.root.attributes
    rank = k.root.operands[0].array.rank
    first: list[IndexValue] = [0] * rank
    for dim, indices_dim in zip(
        a.input_batching_dims, a.scatter_indices_batching_dims, strict=True
    ):
        first[dim] = batch[indices_dim - (indices_dim > a.index_vector_dim)]
    for component, dim in enumerate(a.scatter_dims_to_operand_dims):
        at = index_vector(indices, a.index_vector_dim, batch, component)
        value = k.read(indices, at)
        first[dim] = k.b.convert(value, S64)
    return first


def fits(k: KernelContext, first: list[IndexValue]) -> Value:
    """Return whether the whole window lies inside the operand; u64 beyond s64 is negative here."""
    shape = k.root.operands[0].array
    updates = k.root.operands[-1].array
    conditions = []
    for i, size, d in zip(first, shape.dims, window_dimensions(k.root), strict=True):
        if isinstance(i, int):
            continue
        room = size - (updates.dims[d] if d is not None else 1)
        conditions.append(k.math.compare("GE", i, 0))
        conditions.append(k.math.compare("LE", i, room))
    return k.body.all_of(conditions)


def target_of(k: KernelContext, first: Sequence[IndexValue], at: Sequence[IndexValue]) -> Index:
    """Return the index of the result for element `at` of the updates; its window is at `first`."""
    return tuple(
        k.math.add(i, at[d]) if d is not None else i
        for i, d in zip(first, window_dimensions(k.root), strict=True)
    )


def combine(k: KernelContext, target: Index, at: Sequence[IndexValue]) -> None:
    """Combine element `at` of the updates into element `target` of the results."""
    new = [k.read(update, tuple(at)) for update in k.root.operands[len(k.outputs) + 1 :]]
    old = [output.load(k.math, target) for output in k.outputs]
    results = k.g.inline(k.root.called[0], [*old, *new])
    for output, value in zip(k.outputs, results, strict=True):
        output.store(k.math, target, k.b.convert(value, output.dtype))
