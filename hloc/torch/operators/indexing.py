"""Operators that read or write elements by index tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hloc.dtypes import S64
from hloc.errors import UnsupportedError
from hloc.ir.instruction import Instruction
from hloc.torch.graph import Lowering, implements


def _wrapped(g: Lowering, index: Instruction, size: int) -> Instruction:
    """Return an index in which negative numbers count from the end."""
    index = g.cast(index, S64)
    negative = g.build.compare(index, g.splat(0, S64, index.array.dims), "LT")
    shifted = g.build.add(index, g.splat(size, S64, index.array.dims))
    return g.build.select(negative, shifted, index)


def take(g: Lowering, x: Instruction, index: Instruction, dim: int = 0) -> Instruction:
    """Return the slices of `x` at the positions `index` of `dim`."""
    return _gathered(g, x, index, (dim,), index.array.rank, dim)


def _gathered(
    g: Lowering, x: Instruction, index: Instruction, dims: Sequence[int], rank: int, first: int
) -> Instruction:
    """Return the slices of `x` at positions of `dims`, whose `rank` dimensions begin at `first`."""
    sizes = x.array.dims
    return g.build.instruction(
        "gather",
        (x, index),
        offset_dims=tuple(
            i for i in range(len(sizes) - len(dims) + rank) if not first <= i < first + rank
        ),
        collapsed_slice_dims=tuple(dims),
        start_index_map=tuple(dims),
        index_vector_dim=rank,
        slice_sizes=tuple(1 if i in dims else n for i, n in enumerate(sizes)),
    )


implements("embedding.default")(lambda g, table, index, *_: take(g, table, g.cast(index, S64)))
implements("index_select.default")(
    lambda g, x, dim, index: take(g, x, _wrapped(g, index, x.array.dims[dim]), dim % x.array.rank)
)


@implements("embedding_dense_backward.default")
def _embedding_backward(
    g: Lowering,
    gradient: Instruction,
    index: Instruction,
    rows: int,
    padding: int,
    _by_frequency: bool,
) -> Instruction:
    index = g.cast(index, S64)
    if padding >= 0:
        unused = g.build.compare(index, g.splat(padding, S64, index.array.dims), "EQ")
        index = g.build.select(unused, g.splat(rows, S64, index.array.dims), index)
    zeros = g.splat(0, g.dtype, g.dims)
    return _scatter(g, zeros, [index], gradient, (0,), "add")


def _scatter(
    g: Lowering,
    x: Instruction,
    indices: Sequence[Instruction],
    updates: Instruction,
    dims: Sequence[int],
    opcode: str,
) -> Instruction:
    """Return `x` with `updates` combined in at `indices` (equal shapes) of dimensions `dims`.

    The dimensions of `updates` are those of the indices, then the other dimensions of `x`.
    """
    rank = indices[0].array.rank
    kind = x.array.dtype
    function = g.build.scalar_function(opcode, kind) if opcode else _second(g, kind)
    return g.build.instruction(
        "scatter",
        (x, _columns(g, indices), updates),
        called=(function,),
        update_window_dims=tuple(range(rank, updates.array.rank)),
        inserted_window_dims=tuple(sorted(dims)),
        scatter_dims_to_operand_dims=tuple(dims),
        index_vector_dim=rank,
    )


def _columns(g: Lowering, indices: Sequence[Instruction]) -> Instruction:
    """Return an array of index vectors, along a new last dimension."""
    columns = [g.build.reshape(index, (*index.array.dims, 1)) for index in indices]
    return (
        g.build.concatenate(columns, columns[0].array.rank - 1) if len(columns) > 1 else columns[0]
    )


def _second(g: Lowering, kind: Any) -> Any:
    """Return the computation of the second of two scalars: an update replaces the element."""
    from hloc.ops.builder import Builder
    from hloc.shapes import ArrayShape

    inner = Builder(g.module.add_computation("replace"))
    inner.parameter(0, ArrayShape(kind))
    inner.computation.set_root(inner.parameter(1, ArrayShape(kind)))
    return inner.computation


def _index_arrays(
    g: Lowering, x: Instruction, indices: Sequence[Instruction | None]
) -> tuple[list[Instruction], list[int], tuple[int, ...]]:
    """Return wrapped indices broadcast to one shape, their dimensions of `x`, and that shape."""
    import numpy as np

    dims = [i for i, index in enumerate(indices) if index is not None]
    given = [index for index in indices if index is not None]
    if any(index.array.dtype.is_pred for index in given):
        raise UnsupportedError("an index by a mask has a result whose size is not known")
    shape = np.broadcast_shapes(*(index.array.dims for index in given))
    found = [
        g.expand(_wrapped(g, index, x.array.dims[dim]), shape)
        for index, dim in zip(given, dims, strict=True)
    ]
    return found, dims, tuple(shape)


@implements("index.Tensor", "_unsafe_index.Tensor")
def _index(g: Lowering, x: Instruction, indices: Sequence[Instruction | None]) -> Instruction:
    arrays, dims, shape = _index_arrays(g, x, indices)
    adjacent = dims == list(range(dims[0], dims[0] + len(dims)))
    return _gathered(g, x, _columns(g, arrays), dims, len(shape), dims[0] if adjacent else 0)


@implements("index_put.default", "_unsafe_index_put.default")
def _index_put(
    g: Lowering,
    x: Instruction,
    indices: Sequence[Instruction | None],
    values: Instruction,
    accumulate: bool = False,
) -> Instruction:
    if len([i for i in indices if i is not None]) == 1 and any(
        i is not None and i.array.dtype.is_pred for i in indices
    ):
        return _masked_put(g, x, indices, values, accumulate)
    arrays, dims, shape = _index_arrays(g, x, indices)
    rest = [n for i, n in enumerate(x.array.dims) if i not in dims]
    if dims != list(range(len(dims))):
        raise UnsupportedError("values are written at the first dimensions only")
    updates = g.operand(values, x.array.dtype, (*shape, *rest))
    return _scatter(g, x, arrays, updates, dims, "add" if accumulate else "")


def _masked_put(
    g: Lowering,
    x: Instruction,
    indices: Sequence[Instruction | None],
    values: Instruction,
    accumulate: bool,
) -> Instruction:
    """Return `x` with one value where a mask of its first dimensions holds."""
    mask = next(i for i in indices if i is not None)
    if values.array.elements != 1 or indices[0] is None:
        raise UnsupportedError("a mask can select places for one value only")
    dims = x.array.dims
    wide = g.build.broadcast(mask, dims, tuple(range(mask.array.rank)))
    value = g.operand(g.build.reshape(values, ()), x.array.dtype, dims)
    return g.build.select(wide, g.build.add(x, value) if accumulate else value, x)


def _places(g: Lowering, index: Instruction, dim: int, size: int) -> list[Instruction]:
    """Return an index per dimension for operators that index `dim` element by element."""
    return [
        _wrapped(g, index, size) if i == dim else g.build.iota(S64, index.array.dims, i)
        for i in range(index.array.rank)
    ]


@implements("gather.default")
def _gather(
    g: Lowering, x: Instruction, dim: int, index: Instruction, **_options: Any
) -> Instruction:
    dim %= x.array.rank
    return _index(g, x, _places(g, index, dim, x.array.dims[dim]))


implements("scatter.src", "scatter.value")(
    lambda g, x, dim, index, source: scatter_along(g, x, dim, index, source, "")
)


implements("scatter_add.default")(
    lambda g, x, dim, index, source: scatter_along(g, x, dim, index, source, "add")
)


_REDUCTIONS = {"add": "add", "multiply": "multiply", "sum": "add", "prod": "multiply",
               "amax": "maximum", "amin": "minimum"}  # fmt: skip


@implements("scatter.reduce", "scatter.value_reduce")
def _scatter_combine(
    g: Lowering, x: Instruction, dim: int, index: Instruction, source: Any, *, reduce: str
) -> Instruction:
    return scatter_along(g, x, dim, index, source, _REDUCTIONS[reduce])


@implements("scatter_reduce.two")
def _scatter_reduce(
    g: Lowering,
    x: Instruction,
    dim: int,
    index: Instruction,
    source: Any,
    reduce: str,
    include_self: bool = True,
) -> Instruction:
    if reduce not in _REDUCTIONS or not include_self:
        raise UnsupportedError(f"scatter_reduce by {reduce!r} or without the old values")
    return scatter_along(g, x, dim, index, source, _REDUCTIONS[reduce])


def scatter_along(
    g: Lowering, x: Instruction, dim: int, index: Instruction, source: Any, opcode: str
) -> Instruction:
    """Return `x` with `source` combined in at the positions `index` of `dim`; "" replaces."""
    dim %= x.array.rank
    sizes = index.array.dims
    if isinstance(source, Instruction) and source.array.dims != sizes:
        source = g.build.slice(source, [0] * len(sizes), sizes)
    updates = g.operand(source, x.array.dtype, sizes)
    places = _places(g, index, dim, x.array.dims[dim])
    return _scatter(g, x, places, updates, range(x.array.rank), opcode)
