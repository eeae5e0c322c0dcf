"""Pooling and resampling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import prod
from typing import Any

from hloc.dtypes import S64
from hloc.errors import UnsupportedError
from hloc.ir.attributes import Window, WindowDimension
from hloc.ir.instruction import Instruction
from hloc.torch.graph import Lowering, implements
from hloc.torch.operators.reductions import extremum_function, lowest


def _window(
    g: Lowering,
    x: Instruction,
    size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Window:
    """Return the window over the last dimensions; sizes that round up are padded at the end."""
    count = len(size)
    outer = x.array.rank - count
    strides, pads, steps = (
        tuple(v) * count if len(v) == 1 else tuple(v) for v in (stride or size, padding, dilation)
    )
    window = [WindowDimension(1)] * outer
    for i in range(count):
        reach = steps[i] * (size[i] - 1) + 1
        needed = (g.dims[outer + i] - 1) * strides[i] + reach
        high = max(needed - x.array.dims[outer + i] - pads[i], -x.array.dims[outer + i])
        window.append(WindowDimension(size[i], strides[i], pads[i], max(high, 0), 1, steps[i]))
    return Window(tuple(window))


@implements("max_pool2d_with_indices.default", "max_pool3d_with_indices.default")
def _max_pool(
    g: Lowering,
    x: Instruction,
    size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    _ceil: bool = False,
) -> list[Instruction]:
    """Return maxima and their positions, counted over the pooled dimensions."""
    kind = x.array.dtype
    window = _window(g, x, size, stride, padding, dilation)
    inner = x.array.dims[-len(size) :]
    flat = g.build.iota(S64, (prod(inner),))
    positions = g.build.broadcast(
        g.build.reshape(flat, inner), x.array.dims,
        tuple(range(x.array.rank - len(size), x.array.rank)),
    )  # fmt: skip
    inits = (g.constant(lowest(kind), kind), g.constant(prod(inner), S64))
    both = g.build.instruction(
        "reduce-window",
        (x, positions, *inits),
        called=(extremum_function(g, kind, "GT"),),
        window=window,
    )
    return [g.build.get_tuple_element(both, i) for i in (0, 1)]


@implements("max_pool2d_with_indices_backward.default")
def _max_pool_backward(
    g: Lowering, gradient: Instruction, x: Instruction, *rest: Any
) -> Instruction:
    """Add each gradient at the position of its maximum."""
    from hloc.torch.operators.indexing import scatter_along

    indices = rest[-1]
    outer = x.array.dims[:-2]
    rows = prod(outer)
    flat = g.splat(0, g.dtype, (rows, prod(x.array.dims[-2:])))
    sizes = (rows, prod(gradient.array.dims[-2:]))
    index, source = g.build.reshape(indices, sizes), g.build.reshape(gradient, sizes)
    found = scatter_along(g, flat, 1, index, source, "add")
    return g.build.reshape(found, x.array.dims)


@implements("avg_pool2d.default", "avg_pool1d.default", "avg_pool3d.default")
def _average_pool(
    g: Lowering,
    x: Instruction,
    size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    _ceil: bool = False,
    count_include_pad: bool = True,
    divisor: int | None = None,
) -> Instruction:
    """Return sums of windows by a number, or by how many elements each window has."""
    window = _window(g, x, size, stride, padding, (1,))
    total = _window_sum(g, x, window)
    if divisor is not None or (count_include_pad and not _ceil):
        return g.binary("divide", total, float(divisor or prod(size)))
    if count_include_pad:
        raise UnsupportedError("an average pool whose size is rounded up")
    ones = g.splat(1, x.array.dtype, x.array.dims)
    return g.build.divide(total, _window_sum(g, ones, window))


def _window_sum(g: Lowering, x: Instruction, window: Window) -> Instruction:
    kind = x.array.dtype
    function = g.build.scalar_function("add", kind)
    return g.build.instruction(
        "reduce-window", (x, g.constant(0, kind)), called=(function,), window=window
    )


@implements("_adaptive_avg_pool2d.default", "_adaptive_avg_pool3d.default")
def _adaptive_average_pool(g: Lowering, x: Instruction, size: Sequence[int]) -> Instruction:
    inner = x.array.dims[-len(size) :]
    if any(n % m for n, m in zip(inner, size, strict=True)):
        raise UnsupportedError("an adaptive pool whose windows differ in size")
    window = [n // m for n, m in zip(inner, size, strict=True)]
    return _average_pool(g, x, window, window)


@implements("upsample_nearest2d.vec", "upsample_nearest2d.default")
def _nearest(g: Lowering, x: Instruction, *_: Any) -> Instruction:
    from hloc.torch.operators.indexing import take

    for dim in range(2, x.array.rank):
        old, new = x.array.dims[dim], g.dims[dim]
        sources = [min(math.floor(i * old / new), old - 1) for i in range(new)]
        index = g.build.constant(sources, S64)
        x = take(g, x, index, dim)
    return x
