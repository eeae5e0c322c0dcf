"""Cases of dot, ragged-dot, scaled-dot, convolution: any dimension numbers, windows and types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fuzz.draft import ARRAY_TYPES, FLOATS, Draft
from hloc.dtypes import BF16, DTYPES, F16, F32, F64, PRED, S8, S32, DType
from hloc.ir.attributes import ConvolutionDimensions, Window, WindowDimension
from hloc.shapes import ArrayShape

SIZES = (2, 1, 3, 5, 8, 0)
OPERANDS = tuple(dtype for dtype in ARRAY_TYPES if dtype is not PRED and dtype.bits > 1)


def _types(d: Draft) -> tuple[DType, DType, DType]:
    """Return types of both operands and the result."""
    lhs = d.pick((F32, F64, BF16, S8, *OPERANDS))
    if lhs is S8 and d.flag():
        return lhs, lhs, S32
    if lhs.is_float and lhs.bits < 32:
        rhs = d.pick([t for t in FLOATS if t.bits == lhs.bits]) if lhs.bits == 8 else lhs
        return lhs, rhs, d.pick((F32, lhs) if lhs is rhs else (F32, BF16, F16))
    return lhs, lhs, lhs


def _dot_operands(
    d: Draft, extra: int = 0, sizes: tuple[int, ...] = SIZES
) -> tuple[list[int], list[int], dict[str, Any], tuple[int, ...]]:
    """Return sizes of both operands in drawn orders, dimension numbers and sizes of the result.

    `extra` dimensions of size 3 of the rhs are neither free nor contracted: `rhs_group_dims`.
    """
    batch = [d.pick((2, 1, 3, 0)) for _ in range(d.integer(0, 2))]
    contracted = [d.pick(sizes) for _ in range(d.integer(0, 2))]
    left = [d.pick(sizes) for _ in range(d.integer(0, 2))]
    right = [d.pick(sizes) for _ in range(d.integer(0, 2))]
    lhs_roles, rhs_roles = [*batch, *contracted, *left], [*batch, *contracted, *right, *[3] * extra]
    lhs_order, rhs_order = d.order(len(lhs_roles)), d.order(len(rhs_roles))
    # Role r of the lhs is dimension lhs_at[r].
    lhs_at, rhs_at = list(lhs_order), list(rhs_order)
    # Free dimensions come in the order of the operand, so these are not moved among themselves.
    first = len(batch) + len(contracted)
    lhs_at[first:] = sorted(lhs_at[first:])
    tail = sorted(rhs_at[first : first + len(right)])
    rhs_at[first : first + len(right)] = tail
    lhs, rhs = [0] * len(lhs_roles), [0] * len(rhs_roles)
    for role, dim in enumerate(lhs_at):
        lhs[dim] = lhs_roles[role]
    for role, dim in enumerate(rhs_at):
        rhs[dim] = rhs_roles[role]
    numbers: dict[str, Any] = {
        "lhs_batch_dims": tuple(lhs_at[: len(batch)]),
        "rhs_batch_dims": tuple(rhs_at[: len(batch)]),
        "lhs_contracting_dims": tuple(lhs_at[len(batch) : first]),
        "rhs_contracting_dims": tuple(rhs_at[len(batch) : first]),
    }
    if extra:
        numbers["rhs_group_dims"] = tuple(rhs_at[len(rhs_at) - extra :])
    return lhs, rhs, numbers, (*batch, *left, *right)


def dot(d: Draft) -> str:
    lhs_type, rhs_type, result_type = _types(d)
    lhs, rhs, numbers, dims = _dot_operands(d)
    operands = [d.tame_array(lhs_type, lhs, special=True), d.tame_array(rhs_type, rhs)]
    d.add("dot", operands, shape=ArrayShape(result_type, dims), **numbers)
    return "table"


def large_dot(d: Draft) -> str:
    """A matrix product large enough for blocked code."""
    dtype = d.pick((F32, F64, BF16))
    m, k, n = (d.pick((33, 1, 16, 65)) for _ in range(3))
    lhs_first, rhs_first = d.flag(), d.flag()
    lhs = d.tame_array(dtype, (m, k) if lhs_first else (k, m))
    rhs = d.tame_array(dtype, (k, n) if rhs_first else (n, k))
    d.add(
        "dot",
        [lhs, rhs],
        shape=ArrayShape(d.pick((F32, dtype)) if dtype is BF16 else dtype, (m, n)),
        lhs_contracting_dims=(1 if lhs_first else 0,),
        rhs_contracting_dims=(0 if rhs_first else 1,),
    )
    return "table"


def either_dot(d: Draft) -> str:
    return large_dot(d) if d.integer(0, 3) == 3 else dot(d)


def ragged_dot(d: Draft) -> str:
    """Groups of rows of the lhs, of what is contracted, or of the batch."""
    dtype = d.pick((F32, F64, BF16, S32))
    m, k, n, groups = (d.pick(SIZES) for _ in range(4))
    ragged = d.pick(("rows", "contracted", "batch"))
    numbers: dict[str, Any] = {}
    lhs: tuple[int, ...]
    rhs: tuple[int, ...]
    dims: tuple[int, ...]
    if ragged == "rows":
        lhs, rhs, dims = (m, k), (groups, k, n), (m, n)
        contracting, numbers["rhs_group_dims"], ragged_dim = (1, 1), (0,), 0
    elif ragged == "contracted":
        lhs, rhs, dims = (m, k), (k, n), (groups, m, n)
        contracting, ragged_dim = (1, 0), 1
    else:
        batch = d.pick((2, 1, 3, 0))
        lhs, rhs, dims = (batch, m, k), (batch, k, n), (batch, m, n)
        contracting, ragged_dim = (2, 1), 0
        numbers |= {"lhs_batch_dims": (0,), "rhs_batch_dims": (0,)}
    operands = [d.tame_array(dtype, lhs), d.tame_array(dtype, rhs)]
    d.add(
        "ragged-dot",
        [*operands, d.parameter(_group_sizes(d, groups, lhs[ragged_dim]), S32)],
        shape=ArrayShape(dtype, dims),
        lhs_contracting_dims=(contracting[0],),
        rhs_contracting_dims=(contracting[1],),
        lhs_ragged_dims=(ragged_dim,),
        **numbers,
    )
    return "table"


def _group_sizes(d: Draft, groups: int, limit: int) -> np.ndarray[Any, Any]:
    """Return sizes of groups whose sum is at most `limit`."""
    total = d.integer(0, limit)
    return d.random.multinomial(total, [1 / groups] * groups) if groups else np.zeros(0)


def scaled_dot(d: Draft) -> str:
    """Draw a product of narrow floats, one scale for each block of the contracted dimension."""
    lhs_type, rhs_type = (
        DTYPES[d.pick(("f8e4m3fn", "f8e5m2", "f4e2m1fn", "bf16"))] for _ in range(2)
    )
    m, n, blocks, width = d.pick((2, 1, 5)), d.pick((3, 1)), d.pick((1, 2, 3)), d.pick((4, 1, 8))
    k = blocks * width
    scale = DTYPES[d.pick(("f8e8m0fnu", "bf16"))]
    scales = [
        d.parameter(2.0 ** d.random.integers(-2, 3, (size, blocks)), scale) for size in (m, n)
    ]
    operands = [d.tame_array(lhs_type, (m, k)), d.tame_array(rhs_type, (n, k)), *scales]
    d.add(
        "scaled-dot",
        operands,
        shape=ArrayShape(d.pick((F32, BF16)), (m, n)),
        lhs_contracting_dims=(1,),
        rhs_contracting_dims=(1,),
    )
    return "table"


def convolution(d: Draft) -> str:
    """Draw a convolution of any rank, window, groups, dimension order and types.

    The type of the result may be another than the inferred one: the first draft only gives its
    shape.
    """
    lhs_type, rhs_type, result_type = _types(d)
    rank = d.pick((1, 2, 0, 3))
    groups, batch_groups = d.pick(((1, 1), (2, 1), (3, 1), (1, 2)))
    batch = d.pick((1, 2)) * batch_groups
    kernel_in, out = d.pick((1, 2, 3)), d.pick((1, 2)) * groups * batch_groups
    window, spatial = [], []
    for _ in range(rank):
        w, size = _window(d)
        window.append(w)
        spatial.append(size)
    labels, orders = _labels(d, rank)
    lhs = _placed(orders[0], [batch, kernel_in * groups, *spatial])
    rhs = _placed(orders[1], [kernel_in, out, *(w.size for w in window)])
    operands = [d.tame_array(lhs_type, lhs), d.tame_array(rhs_type, rhs)]
    attributes: dict[str, Any] = {
        "window": Window(tuple(window)),
        "dim_labels": labels,
        "feature_group_count": groups,
        "batch_group_count": batch_groups,
    }
    probe = d.add("convolution", operands, **attributes)
    if result_type is not probe.array.dtype:
        d.results.pop()
        d.entry.computation.remove(probe)
        shape = ArrayShape(result_type, probe.array.dims)
        d.add("convolution", operands, shape=shape, **attributes)
    return "table"


def _window(d: Draft) -> tuple[WindowDimension, int]:
    """Return one dimension of a window and the size of the array below it."""
    size, base = d.pick((2, 1, 3)), d.pick((5, 1, 8, 3, 0))
    dilation = d.pick((1, 2, 3))
    whole = 0 if base == 0 else (base - 1) * dilation + 1
    low = d.integer(-min(1, whole), 2)
    high = d.integer(max(-1, -(whole + low)), 2)
    return (
        WindowDimension(
            size,
            stride=d.pick((1, 2, 3)),
            pad_low=low,
            pad_high=high,
            base_dilation=dilation,
            window_dilation=d.pick((1, 2)),
            reversal=d.flag(),
        ),
        base,
    )


def _placed(order: tuple[int, ...], sizes: list[int]) -> list[int]:
    """Return sizes with role r at dimension `order[r]`."""
    found = [0] * len(sizes)
    for role, dim in enumerate(order):
        found[dim] = sizes[role]
    return found


def _labels(d: Draft, rank: int) -> tuple[ConvolutionDimensions, list[tuple[int, ...]]]:
    orders = [d.order(rank + 2) for _ in range(3)]
    texts = []
    for order, roles in zip(orders, ("bf", "io", "bf"), strict=True):
        text = [""] * (rank + 2)
        for role, dim in enumerate(order):
            text[dim] = roles[role] if role < 2 else str(role - 2)
        texts.append("".join(text))
    lhs, rhs, out = orders
    return (
        ConvolutionDimensions(
            lhs[0], lhs[1], lhs[2:], rhs[0], rhs[1], rhs[2:], out[0], out[1], out[2:],
            text=f"{texts[0]}_{texts[1]}->{texts[2]}",
        ),
        orders,
    )  # fmt: skip


CASES: dict[str, Callable[[Draft], str]] = {
    "convolution": convolution,
    "dot": either_dot,
    "ragged-dot": ragged_dot,
    "scaled-dot": scaled_dot,
}
