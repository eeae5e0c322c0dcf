"""Reductions over dimensions, cumulative operations, sorting."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, TypeAlias

from hloc.dtypes import F32, PRED, S64, DType
from hloc.errors import UnsupportedError
from hloc.ir.attributes import Window, WindowDimension
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ops.builder import Builder
from hloc.shapes import ArrayShape
from hloc.torch.graph import Lowering, implements

Limit: TypeAlias = Callable[[DType], Any]
"""`lowest` or `highest`."""


def lowest(dtype: DType) -> Any:
    """Return the smallest value of a type, the init of a maximum."""
    return _limit(dtype, "min", -math.inf)


def highest(dtype: DType) -> Any:
    """Return the largest value of a type, the init of a minimum."""
    return _limit(dtype, "max", math.inf)


def _limit(dtype: DType, name: str, infinity: float) -> Any:
    import numpy as np

    if dtype is PRED:
        return name == "max"
    return getattr(np.iinfo(dtype.numpy), name) if dtype.is_integer else infinity


@implements("sum.dim_IntList", "sum.default")
def _sum(
    g: Lowering, x: Instruction, dims: Any = None, keepdim: bool = False, **_options: Any
) -> Instruction:
    return g.reduce("add", g.cast(x, g.dtype), g.all_dims(x, dims), 0, keepdim)


@implements("mean.dim", "mean.default")
def _mean(
    g: Lowering, x: Instruction, dims: Any = None, keepdim: bool = False, **_options: Any
) -> Instruction:
    over = g.all_dims(x, dims)
    wide = F32 if g.dtype.is_narrow_float else g.dtype
    total = g.reduce("add", g.cast(x, wide), over, 0, keepdim)
    count = prod(x.array.dims[dim] for dim in over)
    return g.cast(g.binary("divide", total, float(count), wide), g.dtype)


@implements("prod.default", "prod.dim_int")
def _product(
    g: Lowering, x: Instruction, dim: Any = None, keepdim: bool = False, **_options: Any
) -> Instruction:
    over = (dim,) if isinstance(dim, int) else None
    return g.reduce("multiply", g.cast(x, g.dtype), g.all_dims(x, over), 1, keepdim)


def _extreme(
    opcode: str, start: Limit, g: Lowering, x: Instruction, dims: Any = None, keep: bool = False
) -> Instruction:
    return g.reduce(opcode, x, g.all_dims(x, dims), start(x.array.dtype), keep)


def _logical(
    opcode: str, start: bool, g: Lowering, x: Instruction, dims: Any = None, keep: bool = False
) -> Instruction:
    over = g.all_dims(x, [dims] if isinstance(dims, int) else dims)
    return g.reduce(opcode, g.cast(x, PRED), over, start, keep)


implements("amax.default", "max.default")(partial(_extreme, "maximum", lowest))
implements("amin.default", "min.default")(partial(_extreme, "minimum", highest))
implements("any.default", "any.dim", "any.dims")(partial(_logical, "or", False))
implements("all.default", "all.dim", "all.dims")(partial(_logical, "and", True))


@implements("var.correction", "var.dim")
def _variance(
    g: Lowering,
    x: Instruction,
    dims: Any = None,
    correction: Any = 1,
    keepdim: bool = False,
) -> Instruction:
    over = g.all_dims(x, dims)
    count = prod(x.array.dims[dim] for dim in over)
    rest = max(0, count - (1 if correction is None else correction))
    total = squared_deviations(g, x, over)
    kept = g.build.reshape(total, g.dims) if total.array.dims != g.dims else total
    return g.binary("divide", kept, float(rest))


def squared_deviations(g: Lowering, x: Instruction, over: Sequence[int]) -> Instruction:
    """Return the sum over `over` of squared differences from the mean, dimensions kept as 1."""
    count = prod(x.array.dims[dim] for dim in over)
    total = g.reduce("add", x, over, 0, keep=True)
    mean = g.build.divide(total, g.splat(count, x.array.dtype, total.array.dims))
    centred = g.build.subtract(x, g.expand(mean, x.array.dims))
    return g.reduce("add", g.build.multiply(centred, centred), over, 0, keep=True)


# ---------------------------------------------------------------- indices of extrema


def _extremum(
    direction: str,
    start: Limit,
    g: Lowering,
    x: Instruction,
    dim: int | None = None,
    _keep: bool = False,
) -> list[Instruction]:
    """Return value and index of the first extremum along `dim`, of all elements if None."""
    if dim is None:
        x = g.build.reshape(x, (x.array.elements,))
        dim = 0
    dim %= x.array.rank
    kind = x.array.dtype
    function = extremum_function(g, kind, direction)
    inits = (g.constant(start(kind), kind), g.index(0))
    indices = g.build.iota(S64, x.array.dims, dim)
    both = g.build.reduce((x, indices), inits, (dim,), function)
    return [g.build.reshape(g.build.get_tuple_element(both, i), g.dims) for i in (0, 1)]


_largest, _smallest = partial(_extremum, "GT", lowest), partial(_extremum, "LT", highest)
implements("argmax.default")(lambda *given, **named: _largest(*given, **named)[1])
implements("argmin.default")(lambda *given, **named: _smallest(*given, **named)[1])
implements("max.dim")(_largest)
implements("min.dim")(_smallest)


def extremum_function(g: Lowering, kind: DType, direction: str) -> Computation:
    """Return the reducer of (value, index) that keeps the first extremum; a NaN wins."""
    inner = Builder(g.module.add_computation("extremum"))
    x, i, y, j = (inner.parameter(n, ArrayShape(t)) for n, t in enumerate((kind, S64, kind, S64)))
    wins = inner.compare(x, y, direction)
    if kind.is_float:
        wins = inner.logical_or(wins, inner.compare(x, x, "NE"))
    tie = inner.logical_and(inner.compare(x, y, "EQ"), inner.compare(i, j, "LT"))
    index = inner.select(inner.logical_or(wins, tie), i, j)
    inner.computation.set_root(inner.tuple((inner.select(wins, x, y), index)))
    return inner.computation


# ---------------------------------------------------------------- running sums and sorting


implements("cumsum.default")(
    lambda g, x, dim, **_options: _running(g, g.cast(x, g.dtype), dim, "add", 0)
)
implements("cumprod.default")(
    lambda g, x, dim, **_options: _running(g, g.cast(x, g.dtype), dim, "multiply", 1)
)


def _running(g: Lowering, x: Instruction, dim: int, opcode: str, start: Any) -> Instruction:
    """Return the reduce-window whose windows reach from the first element to each element."""
    if not x.array.rank or not x.array.elements:
        return x
    dim %= x.array.rank
    size = x.array.dims[dim]
    window = Window(
        tuple(
            WindowDimension(size, pad_low=size - 1) if i == dim else WindowDimension(1)
            for i in range(x.array.rank)
        )
    )
    function = g.build.scalar_function(opcode, x.array.dtype)
    return g.build.instruction(
        "reduce-window", (x, g.constant(start, x.array.dtype)), called=(function,), window=window
    )


@implements("sort.default", "sort.stable")
def _sort(
    g: Lowering,
    x: Instruction,
    dim: int = -1,
    descending: bool = False,
    *,
    stable: bool | None = None,
) -> list[Instruction]:
    """Return sorted values and their indices; equal values keep their order, NaN is largest."""
    dim %= x.array.rank
    kind = x.array.dtype
    inner = Builder(g.module.add_computation("before"))
    a, b, _, _ = (inner.parameter(n, ArrayShape(t)) for n, t in enumerate((kind, kind, S64, S64)))
    if descending:
        a, b = b, a
    before = inner.compare(a, b, "LT")
    if kind.is_float:
        a_ends, b_ends = (inner.compare(v, v, "NE") for v in (a, b))
        last = inner.logical_and(inner.logical_not(a_ends), b_ends)
        before = inner.logical_or(before, last)
    inner.computation.set_root(before)
    indices = g.build.iota(S64, x.array.dims, dim)
    both = g.build.instruction(
        "sort", (x, indices), called=(inner.computation,), dimensions=(dim,), is_stable=True
    )
    return [g.build.get_tuple_element(both, i) for i in (0, 1)]


@implements("topk.default")
def _top_k(
    g: Lowering, x: Instruction, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> list[Instruction]:
    if not x.array.rank:
        raise UnsupportedError("topk of a scalar")
    dim %= x.array.rank
    limits = [k if i == dim else n for i, n in enumerate(x.array.dims)]
    return [g.build.slice(v, [0] * len(limits), limits) for v in _sort(g, x, dim, largest)]
