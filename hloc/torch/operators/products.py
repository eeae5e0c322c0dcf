"""Matrix products, convolutions, attention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from hloc.dtypes import F32, PRED, S64
from hloc.errors import UnsupportedError
from hloc.ir.attributes import ConvolutionDimensions, Window, WindowDimension
from hloc.ir.instruction import Instruction
from hloc.torch.graph import Lowering, implements


@implements("mm.default", "bmm.default")
def product(g: Lowering, x: Instruction, y: Instruction) -> Instruction:
    """Return the matrix product of the last two dimensions; all others are batch dimensions."""
    batch = x.array.rank - 2
    dims = tuple(range(batch))
    return g.build.instruction(
        "dot",
        (x, y),
        lhs_batch_dims=dims,
        rhs_batch_dims=dims,
        lhs_contracting_dims=(batch + 1,),
        rhs_contracting_dims=(batch,),
    )


@implements("mv.default", "dot.default")
def _vector(g: Lowering, x: Instruction, y: Instruction) -> Instruction:
    return g.build.instruction(
        "dot", (x, y), lhs_contracting_dims=(x.array.rank - 1,), rhs_contracting_dims=(0,)
    )


@implements("addmm.default", "baddbmm.default")
def _product_and_addend(
    g: Lowering, bias: Instruction, x: Instruction, y: Instruction, *, beta: Any = 1, alpha: Any = 1
) -> Instruction:
    found = product(g, x, y)
    if alpha != 1:
        found = g.binary("multiply", found, alpha)
    if beta == 0:
        return found
    return g.binary("add", bias if beta == 1 else g.binary("multiply", bias, beta), found)


# ---------------------------------------------------------------- convolutions


def _labels(spatial: int, input: str = "bf", kernel: str = "oi", output: str = "bf") -> Any:
    """Return dimension numbers with batch and feature dimensions in the orders given."""
    inner = tuple(range(2, spatial + 2))
    digits = "".join(str(n) for n in range(spatial))
    return ConvolutionDimensions(
        input.index("b"), input.index("f"), inner,
        kernel.index("i"), kernel.index("o"), inner,
        output.index("b"), output.index("f"), inner,
        f"{input}{digits}_{kernel}{digits}->{output}{digits}",
    )  # fmt: skip


def _each_dim(count: int, *lists: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the numbers of each spatial dimension; a list of one number is for all of them."""
    whole = [[*values] * count if len(values) == 1 else values for values in lists]
    return list(zip(*whole, strict=True))


def _convolved(
    g: Lowering,
    x: Instruction,
    kernel: Instruction,
    dimensions: Sequence[WindowDimension],
    orders: tuple[str, ...] = (),
    **groups: Any,
) -> Instruction:
    window, labels = Window(tuple(dimensions)), _labels(len(dimensions), *orders)
    return g.build.instruction(
        "convolution", (x, kernel), window=window, dim_labels=labels, **groups
    )


@implements("convolution.default")
def _convolution(
    g: Lowering,
    x: Instruction,
    weight: Instruction,
    bias: Instruction | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Instruction:
    """Return `aten.convolution`; a transposed one is a convolution of the input with holes.

    Its window is reversed, and its padding is what the forward one leaves: dilation * (size - 1) -
    pad.
    """
    sizes = weight.array.dims[2:]
    window = []
    for size, numbers in zip(
        sizes, _each_dim(len(sizes), stride, padding, dilation, output_padding), strict=True
    ):
        along, pad, step, more = numbers
        low = step * (size - 1) - pad
        if transposed:
            window.append(WindowDimension(size, 1, low, low + more, along, step, True))
        else:
            window.append(WindowDimension(size, along, pad, pad, 1, step))
    if transposed:
        weight = _grouped_transpose(g, weight, groups)
    found = _convolved(g, x, weight, window, feature_group_count=groups)
    if bias is None:
        return found
    return g.build.add(found, g.build.broadcast(g.cast(bias, g.dtype), g.dims, (1,)))


def _grouped_transpose(g: Lowering, weight: Instruction, groups: int) -> Instruction:
    """Return the weight of a transposed convolution, [in, out/groups, ...], as [out, in/groups]."""
    dims = weight.array.dims
    split = g.build.reshape(weight, (groups, dims[0] // groups, *dims[1:]))
    order = (0, 2, 1, *range(3, len(dims) + 1))
    return g.build.reshape(
        g.build.transpose(split, order), (groups * dims[1], dims[0] // groups, *dims[2:])
    )


@implements("convolution_backward.default")
def _convolution_backward(
    g: Lowering,
    gradient: Instruction,
    x: Instruction,
    weight: Instruction,
    bias_sizes: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    wanted: Sequence[bool],
) -> list[Instruction | None]:
    """Return the gradients of input, weight and bias, those that are wanted."""
    if transposed:
        raise UnsupportedError("the gradient of a transposed convolution")
    numbers = _each_dim(x.array.rank - 2, stride, padding, dilation)
    arguments = (g, gradient, x, weight, numbers, groups)
    over = (0, *range(2, x.array.rank))
    return [
        _input_gradient(*arguments) if wanted[0] else None,
        _weight_gradient(*arguments) if wanted[1] else None,
        g.reduce("add", gradient, over, 0) if wanted[2] else None,
    ]


def _input_gradient(
    g: Lowering,
    gradient: Instruction,
    x: Instruction,
    weight: Instruction,
    numbers: Sequence[tuple[int, ...]],
    groups: int,
) -> Instruction:
    """Convolve the gradient, dilated by the stride, with the reversed kernel."""
    dims = weight.array.dims
    kernel = _grouped_transpose(g, weight, groups)
    window = []
    for i, (stride, pad, step) in enumerate(numbers):
        reach = step * (dims[2 + i] - 1)
        out = (gradient.array.dims[2 + i] - 1) * stride + 1
        high = x.array.dims[2 + i] - out + pad
        window.append(WindowDimension(dims[2 + i], 1, reach - pad, high, stride, step, True))
    return _convolved(g, gradient, kernel, window, feature_group_count=groups)


def _weight_gradient(
    g: Lowering,
    gradient: Instruction,
    x: Instruction,
    weight: Instruction,
    numbers: Sequence[tuple[int, ...]],
    groups: int,
) -> Instruction:
    """Convolve the input, batch as features, with the gradient as a kernel."""
    window = []
    for i, (stride, pad, step) in enumerate(numbers):
        size = gradient.array.dims[2 + i]
        reach = (size - 1) * stride + 1 + step * (weight.array.dims[2 + i] - 1)
        high = reach - x.array.dims[2 + i] - pad
        window.append(WindowDimension(size, step, pad, high, 1, stride))
    return _convolved(g, x, gradient, window, ("fb", "io", "fb"), batch_group_count=groups)


# ---------------------------------------------------------------- attention


def _masked_scores(
    g: Lowering, scores: Instruction, causal: bool, mask: Instruction | None
) -> Instruction:
    if mask is not None:
        if mask.array.dtype is PRED:
            low = g.splat(-math.inf, scores.array.dtype, scores.array.dims)
            return g.build.select(g.expand(mask, scores.array.dims), scores, low)
        return g.build.add(scores, g.operand(mask, scores.array.dtype, scores.array.dims))
    if not causal:
        return scores
    dims = scores.array.dims
    rows, columns = (g.build.iota(S64, dims, len(dims) - 2 + i) for i in (0, 1))
    inside = g.build.compare(rows, columns, "GE")
    return g.build.select(inside, scores, g.splat(-math.inf, scores.array.dtype, dims))


def _probabilities(
    g: Lowering, q: Instruction, k: Instruction, causal: bool, mask: Any, scale: float | None
) -> tuple[Instruction, Instruction]:
    """Return the attention probabilities in f32 and the log-sum-exp."""
    rank = q.array.rank
    factor = scale if scale is not None else 1 / math.sqrt(q.array.dims[-1])
    wide = F32 if q.array.dtype.is_narrow_float else q.array.dtype
    swapped = g.build.transpose(k, (*range(rank - 2), rank - 1, rank - 2))
    scores = g.cast(product(g, q, swapped), wide)
    scores = g.build.multiply(scores, g.splat(factor, wide, scores.array.dims))
    scores = _masked_scores(g, scores, causal, mask)
    top = g.reduce("maximum", scores, (-1,), -math.inf, keep=True)
    powers = g.unary("exponential", g.build.subtract(scores, g.expand(top, scores.array.dims)))
    total = g.reduce("add", powers, (-1,), 0, keep=True)
    log_total = g.build.add(top, g.unary("log", total))
    found = g.build.divide(powers, g.expand(total, scores.array.dims))
    return found, g.build.reshape(log_total, log_total.array.dims[:-1])


@implements("_scaled_dot_product_flash_attention_for_cpu.default")
def _attention(
    g: Lowering,
    q: Instruction,
    k: Instruction,
    v: Instruction,
    dropout: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Instruction | None = None,
    scale: float | None = None,
) -> list[Instruction]:
    if dropout:
        raise UnsupportedError("attention with dropout")
    found, log_total = _probabilities(g, q, k, is_causal, attn_mask, scale)
    return [product(g, g.cast(found, v.array.dtype), v), log_total]


@implements("_scaled_dot_product_flash_attention_for_cpu_backward.default")
def _attention_backward(
    g: Lowering,
    gradient: Instruction,
    q: Instruction,
    k: Instruction,
    v: Instruction,
    out: Instruction,
    _log_total: Instruction,
    dropout: float,
    is_causal: bool,
    *,
    attn_mask: Instruction | None = None,
    scale: float | None = None,
) -> list[Instruction]:
    """Return the gradients of q, k and v; the probabilities are recomputed."""
    if dropout:
        raise UnsupportedError("attention with dropout")
    rank = q.array.rank
    swap = (*range(rank - 2), rank - 1, rank - 2)
    found, _ = _probabilities(g, q, k, is_causal, attn_mask, scale)
    narrow = g.cast(found, v.array.dtype)
    of_v = product(g, g.build.transpose(narrow, swap), gradient)
    of_p = g.cast(product(g, gradient, g.build.transpose(v, swap)), found.array.dtype)
    weighted = g.build.multiply(of_p, found)
    total = g.reduce("add", weighted, (-1,), 0, keep=True)
    of_scores = g.build.multiply(found, g.build.subtract(of_p, g.expand(total, of_p.array.dims)))
    factor = scale if scale is not None else 1 / math.sqrt(q.array.dims[-1])
    scaled = g.build.multiply(of_scores, g.splat(factor, found.array.dtype, found.array.dims))
    scaled = g.cast(scaled, q.array.dtype)
    of_q = product(g, scaled, k)
    of_k = product(g, g.build.transpose(scaled, swap), q)
    return [of_q, of_k, of_v]
