"""Canonical form of gathers: rows of index vectors, whole windows."""

from __future__ import annotations

from hloc.ir.instruction import Instruction
from hloc.ops.builder import Builder
from hloc.opt.contraction.dot_numbers import resized
from hloc.opt.expander import Expander, is_static
from hloc.opt.library.indexing.index_vectors import (
    Places,
    flat_vectors,
    inverse,
    moved,
    operand_order,
    without_batching,
)


class GatherSimplifier(Expander):
    """Bring gathers into the form of indices `[n, k]` and results `[n, window...]`.

    The operand is transposed so that entry i of a vector is its dimension i, no dimension is
    collapsed, none is batching, and the window stands after the rows; reshapes and transposes
    restore the result. Exact. Cost: O(instructions); the transposes may copy. Not in -O2: hloc's
    kernels take any dimension numbers. Source: XLA's pass of this name.
    """

    acts_on = frozenset({"gather"})

    def when(self, inst: Instruction) -> bool:
        return is_static(inst) and has_whole_windows(inst) and not is_simple_gather(inst)

    def expand(self, inst: Instruction) -> Instruction:
        return simplified_gather(inst)


def gather_places(inst: Instruction) -> Places:
    """Return the interpretation of the index vectors of a gather."""
    a = inst.attributes
    return Places(
        inst.operands[1],
        a.index_vector_dim,
        a.start_index_map,
        a.operand_batching_dims,
        a.start_indices_batching_dims,
    )


def is_simple_gather(inst: Instruction) -> bool:
    """True if the gather has the canonical form."""
    a, rank = inst.attributes, inst.operands[0].array.rank
    return (
        inst.operands[1].array.rank == 2
        and a.index_vector_dim == 1
        and a.start_index_map == tuple(range(len(a.start_index_map)))
        and not a.collapsed_slice_dims
        and not a.operand_batching_dims
        and a.offset_dims == tuple(range(1, rank + 1))
    )


def has_whole_windows(inst: Instruction) -> bool:
    """False if a dimension that the result lacks has windows of size 0: nothing is read there."""
    a = inst.attributes
    return all(a.slice_sizes[d] for d in (*a.collapsed_slice_dims, *a.operand_batching_dims))


def simplified_gather(inst: Instruction) -> Instruction:
    """Add a gather in canonical form, and return it reshaped to the result of `inst`."""
    b, a = Builder(inst.computation), inst.attributes
    operand = inst.operands[0]
    places = gather_places(inst)
    batch = places.batch_dims
    places = without_batching(b, places)
    order = operand_order(places, operand.array.rank)
    operands = (moved(b, operand, order), flat_vectors(b, places))
    rows = b.instruction(
        "gather",
        operands,
        offset_dims=tuple(range(1, operand.array.rank + 1)),
        collapsed_slice_dims=(),
        start_index_map=tuple(range(len(places.index_map))),
        index_vector_dim=1,
        slice_sizes=tuple(a.slice_sizes[dim] for dim in order),
        indices_are_sorted=a.indices_are_sorted and not a.operand_batching_dims,
    )
    # Window dimensions in their order, after the rows.
    windows = moved(b, rows, [0, *(1 + dim for dim in inverse(order))])
    gone = (*a.collapsed_slice_dims, *a.operand_batching_dims)
    window = [size for dim, size in enumerate(a.slice_sizes) if dim not in gone]
    apart = resized(b, windows, (*batch, *window))
    return moved(b, apart, _interleaving(a.offset_dims, len(batch)))


def _interleaving(window_dims: tuple[int, ...], batch: int) -> list[int]:
    """Return which dimension of `[batch..., window...]` each result dimension is."""
    outer, inner = iter(range(batch)), iter(range(batch, batch + len(window_dims)))
    rank = batch + len(window_dims)
    return [next(inner) if dim in window_dims else next(outer) for dim in range(rank)]
