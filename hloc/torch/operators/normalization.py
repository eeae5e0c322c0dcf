"""Softmax, layer, group and batch normalization, and their gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import prod
from typing import Any

from hloc.dtypes import F32
from hloc.ir.instruction import Instruction
from hloc.torch.graph import Lowering, implements
from hloc.torch.operators.reductions import squared_deviations


def _wide(g: Lowering, x: Instruction) -> Instruction:
    """Return `x` in the type of sums."""
    return g.cast(x, F32) if x.array.dtype.is_narrow_float else x


@implements("_softmax.default")
def _softmax(g: Lowering, x: Instruction, dim: int, _to_float: bool) -> Instruction:
    wide = _wide(g, x)
    powers = g.unary("exponential", _below_maximum(g, wide, dim))
    total = g.reduce("add", powers, (dim,), 0, keep=True)
    return g.cast(g.build.divide(powers, g.expand(total, g.dims)), g.dtype)


@implements("_log_softmax.default")
def _log_softmax(g: Lowering, x: Instruction, dim: int, _to_float: bool) -> Instruction:
    shifted = _below_maximum(g, _wide(g, x), dim)
    total = g.reduce("add", g.unary("exponential", shifted), (dim,), 0, keep=True)
    found = g.build.subtract(shifted, g.expand(g.unary("log", total), g.dims))
    return g.cast(found, g.dtype)


def _below_maximum(g: Lowering, x: Instruction, dim: int) -> Instruction:
    top = g.reduce("maximum", x, (dim,), -math.inf, keep=True)
    return g.build.subtract(x, g.expand(top, g.dims))


# ---------------------------------------------------------------- layers and groups


def _statistics(
    g: Lowering, x: Instruction, over: Sequence[int], epsilon: float
) -> tuple[Instruction, Instruction, Instruction]:
    """Return (x - mean) * r, mean, and r = 1 / sqrt(variance + epsilon); dimensions kept as 1."""
    kind = x.array.dtype
    count = prod(x.array.dims[dim] for dim in over)
    total = g.reduce("add", x, over, 0, keep=True)
    sizes = total.array.dims
    mean = g.build.divide(total, g.splat(count, kind, sizes))
    deviations = squared_deviations(g, x, over)
    variance = g.build.divide(deviations, g.splat(count, kind, sizes))
    scale = g.unary("rsqrt", g.build.add(variance, g.splat(epsilon, kind, sizes)))
    centred = g.build.subtract(x, g.expand(mean, x.array.dims))
    return g.build.multiply(centred, g.expand(scale, x.array.dims)), mean, scale


def _affine(
    g: Lowering,
    x: Instruction,
    weight: Instruction | None,
    bias: Instruction | None,
    places: Sequence[int],
) -> Instruction:
    """Return x * weight + bias, with their dimensions at `places`."""
    for factor, opcode in ((weight, "multiply"), (bias, "add")):
        if factor is not None:
            kind, dims = x.array.dtype, x.array.dims
            wide = g.build.broadcast(g.cast(factor, kind), dims, tuple(places))
            x = g.build.instruction(opcode, (x, wide))
    return x


@implements("native_layer_norm.default")
def _layer_norm(
    g: Lowering,
    x: Instruction,
    sizes: Sequence[int],
    weight: Instruction | None,
    bias: Instruction | None,
    epsilon: float,
) -> list[Instruction]:
    over = tuple(range(x.array.rank - len(sizes), x.array.rank))
    normal, mean, scale = _statistics(g, _wide(g, x), over, epsilon)
    found = g.cast(_affine(g, normal, weight, bias, over), g.dtype)
    return [found, _as_result(g, mean, 1), _as_result(g, scale, 2)]


def _as_result(g: Lowering, x: Instruction, number: int) -> Instruction:
    """Return `x` with type and dimensions of result `number`."""
    shape = g.results[number]
    assert shape is not None
    x = g.cast(x, shape.dtype)
    return x if x.array.dims == shape.dims else g.build.reshape(x, shape.dims)


@implements("native_layer_norm_backward.default")
def _layer_norm_backward(
    g: Lowering,
    gradient: Instruction,
    x: Instruction,
    sizes: Sequence[int],
    mean: Instruction,
    scale: Instruction,
    weight: Instruction | None,
    _bias: Instruction | None,
    _wanted: Sequence[bool],
) -> list[Instruction]:
    """Return the gradients by x, weight and bias: `aten.native_layer_norm_backward`.

    With n = (x - mean) * scale and g the gradient times the weight, that by x is
    scale * (g - average(g) - n * average(g * n)), averages over the normalised dimensions.
    """
    rank = x.array.rank
    over = tuple(range(rank - len(sizes), rank))
    outer = tuple(range(rank - len(sizes)))
    wide, dims = _wide(g, x), x.array.dims
    kind = wide.array.dtype
    centred = g.build.subtract(wide, g.operand(mean, kind, dims))
    normal = g.build.multiply(centred, g.operand(scale, kind, dims))
    wide_gradient = g.cast(gradient, kind)
    inner = _affine(g, wide_gradient, weight, None, over)
    count = prod(sizes)

    def average(value: Instruction) -> Instruction:
        total = g.reduce("add", value, over, 0, keep=True)
        mean_ = g.build.divide(total, g.splat(count, kind, total.array.dims))
        return g.expand(mean_, dims)

    slope = average(g.build.multiply(inner, normal))
    rest = g.build.subtract(
        g.build.subtract(inner, average(inner)), g.build.multiply(normal, slope)
    )
    of_x = g.cast(g.build.multiply(rest, g.operand(scale, kind, dims)), x.array.dtype)
    of_weight = g.reduce("add", g.build.multiply(wide_gradient, normal), outer, 0)
    of_bias = g.reduce("add", wide_gradient, outer, 0)
    narrow = x.array.dtype
    return [of_x, g.cast(of_weight, narrow), g.cast(of_bias, narrow)]


@implements("native_group_norm.default")
def _group_norm(
    g: Lowering,
    x: Instruction,
    weight: Instruction | None,
    bias: Instruction | None,
    batch: int,
    channels: int,
    inner: int,
    groups: int,
    epsilon: float,
) -> list[Instruction]:
    split = g.build.reshape(_wide(g, x), (batch, groups, channels // groups * inner))
    normal, mean, scale = _statistics(g, split, (2,), epsilon)
    whole = g.build.reshape(normal, x.array.dims)
    found = g.cast(_affine(g, whole, weight, bias, (1,)), g.dtype)
    return [found, _as_result(g, mean, 1), _as_result(g, scale, 2)]


# ---------------------------------------------------------------- batches


@implements("_native_batch_norm_legit_no_training.default")
def _batch_norm_inference(
    g: Lowering,
    x: Instruction,
    weight: Instruction | None,
    bias: Instruction | None,
    mean: Instruction,
    variance: Instruction,
    _momentum: float,
    epsilon: float,
) -> list[Any]:
    """Normalise features (dimension 1) by running statistics; the saved ones are empty."""
    wide = _wide(g, x)
    kind, dims = wide.array.dtype, x.array.dims
    sizes = mean.array.dims
    shifted = g.build.add(g.cast(variance, kind), g.splat(epsilon, kind, sizes))
    scale = g.unary("rsqrt", shifted)
    centred = g.build.subtract(wide, g.build.broadcast(g.cast(mean, kind), dims, (1,)))
    normal = g.build.multiply(centred, g.build.broadcast(scale, dims, (1,)))
    found = g.cast(_affine(g, normal, weight, bias, (1,)), g.dtype)
    empty = g.splat(0, kind, (0,))
    return [found, empty, empty]


@implements("_native_batch_norm_legit_functional.default", "_native_batch_norm_legit.no_stats")
def _batch_norm_training(
    g: Lowering,
    x: Instruction,
    weight: Instruction | None,
    bias: Instruction | None,
    *rest: Any,
) -> list[Any]:
    """Return result, mean, reciprocal deviation; then the running statistics if there are any."""
    running: tuple[Instruction, ...] = rest[:2] if len(rest) == 5 else ()
    momentum, epsilon = rest[-2:]
    if running and rest[2] is False:
        results = _batch_norm_inference(
            g, x, weight, bias, running[0], running[1], momentum, epsilon
        )
        return [*results, *running]
    over = (0, *range(2, x.array.rank))
    wide = _wide(g, x)
    normal, mean, scale = _statistics(g, wide, over, epsilon)
    found = g.cast(_affine(g, normal, weight, bias, (1,)), g.dtype)
    results = [found, _as_result(g, mean, 1), _as_result(g, scale, 2)]
    if not running:
        return results
    kind = running[0].array.dtype
    count = prod(x.array.dims[dim] for dim in over)
    deviations = squared_deviations(g, wide, over)
    unbiased = g.build.divide(
        deviations, g.splat(max(count - 1, 1), wide.array.dtype, deviations.array.dims)
    )
    for old, new in zip(running, (mean, unbiased), strict=True):
        dims = old.array.dims
        flat = g.cast(g.build.reshape(new, dims), kind)
        kept = g.build.multiply(old, g.splat(1 - momentum, kind, dims))
        results.append(g.build.add(kept, g.build.multiply(flat, g.splat(momentum, kind, dims))))
    return results
