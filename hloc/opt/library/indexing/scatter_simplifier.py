"""Canonical form of scatters: rows of index vectors, rows of whole windows."""

from __future__ import annotations

from math import prod

from hloc.ir.instruction import Instruction
from hloc.ops.builder import Builder
from hloc.opt.contraction.dot_numbers import resized
from hloc.opt.expander import Expander, is_static, tuple_like
from hloc.opt.library.indexing.index_vectors import (
    Places,
    flat_vectors,
    inverse,
    moved,
    operand_order,
    without_batching,
)


class ScatterSimplifier(Expander):
    """Bring scatters into the form of indices `[n, k]` and updates `[n, window...]`.

    The operands are transposed so that entry i of a vector is their dimension i, no dimension is
    inserted, none is batching, and the window stands after the rows. Updates keep their order.
    Exact. Cost: O(instructions); the transposes may copy. Not in -O2: hloc's kernels take any
    dimension numbers. Source: XLA's pass of this name.
    """

    acts_on = frozenset({"scatter"})

    def when(self, inst: Instruction) -> bool:
        # No canonical form scatters into an empty array: a window of size 1 does not fit.
        is_empty = inst.operands[0].array.elements == 0
        return is_static(inst) and not is_empty and not is_simple_scatter(inst)

    def expand(self, inst: Instruction) -> Instruction:
        return simplified_scatter(inst)


def scatter_places(inst: Instruction) -> Places:
    """Return the interpretation of the index vectors of a scatter."""
    a = inst.attributes
    return Places(
        inst.operands[len(inst.operands) // 2],
        a.index_vector_dim,
        a.scatter_dims_to_operand_dims,
        a.input_batching_dims,
        a.scatter_indices_batching_dims,
    )


def is_simple_scatter(inst: Instruction) -> bool:
    """True if the scatter has the canonical form."""
    a, rank = inst.attributes, inst.operands[0].array.rank
    return (
        scatter_places(inst).indices.array.rank == 2
        and a.index_vector_dim == 1
        and a.scatter_dims_to_operand_dims == tuple(range(len(a.scatter_dims_to_operand_dims)))
        and not a.inserted_window_dims
        and not a.input_batching_dims
        and a.update_window_dims == tuple(range(1, rank + 1))
    )


def simplified_scatter(inst: Instruction) -> Instruction:
    """Add a scatter in canonical form, and return it reshaped to the result of `inst`."""
    b, a = Builder(inst.computation), inst.attributes
    count = len(inst.operands) // 2
    rank = inst.operands[0].array.rank
    places = without_batching(b, scatter_places(inst))
    order = operand_order(places, rank)
    operands = [moved(b, x, order) for x in inst.operands[:count]]
    updates = [_rows(b, inst, update, order) for update in inst.operands[count + 1 :]]
    vectors = flat_vectors(b, places)
    result = b.instruction(
        "scatter",
        (*operands, vectors, *updates),
        called=inst.called,
        update_window_dims=tuple(range(1, rank + 1)),
        inserted_window_dims=(),
        scatter_dims_to_operand_dims=tuple(range(len(places.index_map))),
        index_vector_dim=1,
        indices_are_sorted=a.indices_are_sorted and not a.input_batching_dims,
        unique_indices=a.unique_indices,
    )
    if count == 1:
        return moved(b, result, inverse(order))
    back = inverse(order)
    parts = (moved(b, b.get_tuple_element(result, i), back) for i in range(count))
    return tuple_like(b, inst, list(parts))


def _rows(b: Builder, inst: Instruction, update: Instruction, order: list[int]) -> Instruction:
    """Return updates as `[n, window...]`, the window in `order` of the operand's dimensions."""
    a, dims = inst.attributes, update.array.dims
    batch = [dim for dim in range(len(dims)) if dim not in a.update_window_dims]
    together = moved(b, update, [*batch, *a.update_window_dims])
    gone = (*a.inserted_window_dims, *a.input_batching_dims)
    sizes = iter(dims[dim] for dim in a.update_window_dims)
    window = [1 if dim in gone else next(sizes) for dim in range(len(order))]
    rows = resized(b, together, (prod(dims[dim] for dim in batch), *window))
    return moved(b, rows, [0, *(1 + dim for dim in order)])
