"""Cases of gather, scatter and the dynamic slices: every form, indices in and out of range."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from fuzz.draft import ARRAY_TYPES, INTEGERS, Draft
from hloc.dtypes import PRED, S32, DType
from hloc.ir.computation import Computation
from hloc.shapes import ArrayShape

INDEX_TYPES = tuple(dtype for dtype in INTEGERS if dtype.bits >= 8)


def _index_type(d: Draft) -> DType:
    return d.pick((S32, *INDEX_TYPES))


def dynamic_slice(d: Draft) -> str:
    dtype, dims = d.pick(ARRAY_TYPES), d.dims()
    index = _index_type(d)
    sizes = tuple(d.integer(0, size) for size in dims)
    starts = [d.indices(index, (), size) for size in dims]
    x = d.any_array(dtype, dims)
    shape = ArrayShape(dtype, sizes)
    d.add("dynamic-slice", [x, *starts], shape=shape, dynamic_slice_sizes=sizes)
    return "exact"


def dynamic_update_slice(d: Draft) -> str:
    dtype, dims = d.pick(ARRAY_TYPES), d.dims()
    index = _index_type(d)
    update = d.any_array(dtype, tuple(d.integer(0, size) for size in dims))
    starts = [d.indices(index, (), size) for size in dims]
    x = d.any_array(dtype, dims)
    if d.flag():
        x = d.entry.copy(x)  # may be written over
    d.add("dynamic-update-slice", [x, update, *starts])
    return "exact"


class _Places:
    """Dimension numbers that gather and scatter have in common, drawn together with sizes."""

    def __init__(self, d: Draft) -> None:
        """Draw a role for each dimension of the operand, then the orders of all others."""
        rank = d.integer(1, 3)
        sizes = [d.pick((3, 1, 5, 2)) for _ in range(rank)]
        roles = [d.pick(("indexed", "window", "batching", "collapsed")) for _ in range(rank)]
        self.operand = tuple(sizes)
        self.batching = tuple(i for i, role in enumerate(roles) if role == "batching")
        collapsed = [i for i, role in enumerate(roles) if role == "collapsed"]
        self.collapsed = tuple(collapsed)
        # Dimensions that are collapsed but not indexed have start 0, as others may have.
        indexed = [i for i, role in enumerate(roles) if role == "indexed" or role == "collapsed"]
        order = d.order(len(indexed))
        self.index_map = tuple(indexed[i] for i in order)
        self.slice_sizes = tuple(
            1 if i in self.batching or i in self.collapsed else d.integer(0 if d.flag() else 1, n)
            for i, n in enumerate(sizes)
        )
        free = [d.pick((2, 1, 3, 0)) for _ in range(d.integer(0, 2))]
        batch = [sizes[i] for i in self.batching]
        # Batch dimensions of the indices in any order: batching ones are named, the rest is free.
        mixed = d.order(len(batch) + len(free))
        indices = [0] * len(mixed)
        for role, at in enumerate(mixed):
            indices[at] = [*batch, *free][role]
        batching_at = [mixed[role] for role in range(len(batch))]
        self.batch_dims = tuple(indices)
        if len(self.index_map) == 1 and d.flag():
            self.vector_dim = len(indices)  # the index vector is implicit
        else:
            self.vector_dim = d.integer(0, len(indices))
            indices.insert(self.vector_dim, len(self.index_map))
            batching_at = [at + (at >= self.vector_dim) for at in batching_at]
        self.indices = tuple(indices)
        self.indices_batching = tuple(batching_at)
        kept = [i for i in range(rank) if i not in self.batching + self.collapsed]
        self.window = tuple(self.slice_sizes[i] for i in kept)
        places = d.order(len(self.batch_dims) + len(kept))[: len(kept)]
        self.window_at = tuple(sorted(places))
        outer, inner = iter(self.batch_dims), iter(self.window)
        self.result = tuple(
            next(inner) if i in self.window_at else next(outer)
            for i in range(len(self.batch_dims) + len(kept))
        )


def gather(d: Draft) -> str:
    """Draw a gather, with indices inside and outside of the operand."""
    p, dtype, index = _Places(d), d.pick(ARRAY_TYPES), _index_type(d)
    if prod(p.result) > 2000:
        return d.or_copy(d.any_array(dtype, p.operand))
    operands = [d.any_array(dtype, p.operand), d.indices(index, p.indices, max(p.operand))]
    d.add(
        "gather",
        operands,
        offset_dims=p.window_at,
        collapsed_slice_dims=p.collapsed,
        start_index_map=p.index_map,
        operand_batching_dims=p.batching,
        start_indices_batching_dims=p.indices_batching,
        index_vector_dim=p.vector_dim,
        slice_sizes=p.slice_sizes,
        indices_are_sorted=False,
    )
    return "exact"


def _two_results(d: Draft, dtype: DType) -> Computation:
    """Add a scatter computation of two arrays: sums of the one, maxima of the other."""
    scalar, count = ArrayShape(dtype), ArrayShape(S32)
    b, (x, i, y, j) = d.computation("combine", [scalar, count, scalar, count])
    b.computation.set_root(b.tuple([b.add(x, y), b.maximum(i, j)]))
    return b.computation


def _overwrite(d: Draft, dtype: DType) -> Computation:
    scalar = ArrayShape(dtype)
    b, (_, y) = d.computation("overwrite", [scalar, scalar])
    b.computation.set_root(y)
    return b.computation


def scatter(d: Draft) -> str:
    """Draw a scatter that adds, overwrites, or has two results."""
    p, dtype, index = _Places(d), d.pick(ARRAY_TYPES), _index_type(d)
    x = d.tame_array(dtype, p.operand)
    if prod(p.result) > 2000:
        return d.or_copy(x)
    if d.flag():
        x = d.entry.copy(x)  # may be written over
    indices = d.indices(index, p.indices, max(p.operand))
    update = d.tame_array(dtype, p.result)
    form = d.pick(("add", "overwrite", "two"))
    if form == "two":
        others = [d.any_array(S32, p.operand), d.any_array(S32, p.result)]
        operands = [x, others[0], indices, update, others[1]]
        computation = _two_results(d, dtype)
    else:
        operands = [x, indices, update]
        overwrites = form == "overwrite" or dtype is PRED
        computation = _overwrite(d, dtype) if overwrites else d.reducer("add", dtype)
    d.add(
        "scatter",
        operands,
        [computation],
        update_window_dims=p.window_at,
        inserted_window_dims=p.collapsed,
        scatter_dims_to_operand_dims=p.index_map,
        input_batching_dims=p.batching,
        scatter_indices_batching_dims=p.indices_batching,
        index_vector_dim=p.vector_dim,
        indices_are_sorted=False,
        unique_indices=False,
    )
    return "table"


CASES: dict[str, Callable[[Draft], str]] = {
    "dynamic-slice": dynamic_slice,
    "dynamic-update-slice": dynamic_update_slice,
    "gather": gather,
    "scatter": scatter,
}
