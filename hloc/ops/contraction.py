"""Matrix products for the evaluator: accurate enough for an oracle, and fast through BLAS.

Floats are multiplied and summed in f64 and rounded once to the result type, integers wrap in the
result type, predicates are or-ed.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from hloc.dtypes import Array, DType
from hloc.ir.attribute_fields import attr
from hloc.ops.array_values import narrowed

ALGORITHMS = (
    "dot_any_f8_any_f8_f32",
    "dot_any_f8_any_f8_f32_fast_accum",
    "dot_f16_f16_f16",
    "dot_f16_f16_f32",
    "dot_bf16_bf16_bf16",
    "dot_bf16_bf16_f32",
    "dot_bf16_bf16_f32_x3",
    "dot_bf16_bf16_f32_x6",
    "dot_bf16_bf16_f32_x9",
    "dot_tf32_tf32_f32",
    "dot_tf32_tf32_f32_x3",
    "dot_f32_f32_f32",
    "dot_f64_f64_f64",
    "dot_unset",
)
"""Values of `algorithm=` of dots and convolutions."""


def precisions() -> Any:
    """Return the attribute `operand_precision`: none or one of these words for each operand."""
    words = ("default", "high", "highest", "packed_nibble")
    return attr("enum_list", default=(), choices=words, fold_case=True)


_EXACT_IN_F64 = 2.0**53


def batched_matmul(lhs: Array, rhs: Array, dtype: DType) -> Array:
    """Return `lhs[b,m,k] @ rhs[b,k,n]` with elements of `dtype`."""
    return rounded_sum(wide_matmul(lhs, rhs), dtype)


def wide_matmul(lhs: Array, rhs: Array) -> Array:
    """Return the product in s64, f64 or c128; s64 wraps, which is valid for narrower types too."""
    if is_integer(lhs.dtype) and is_integer(rhs.dtype):
        return _integer_matmul(lhs, rhs)
    wide = np.complex128 if "c" in (lhs.dtype.kind, rhs.dtype.kind) else np.float64
    return np.asarray(np.matmul(lhs.astype(wide), rhs.astype(wide)))


def rounded_sum(wide: Array, dtype: DType) -> Array:
    """Round or wrap sums of products to `dtype`; for predicates any true product gives true."""
    return np.asarray(wide != 0) if dtype.is_pred else narrowed(wide, dtype)


def is_integer(dtype: np.dtype[Any]) -> bool:
    """True for integers and predicates, including those below a byte."""
    return dtype.kind in "iub" or dtype.name.startswith(("int", "uint"))


def _integer_matmul(lhs: Array, rhs: Array) -> Array:
    bound = _largest(lhs.dtype) * _largest(rhs.dtype) * max(1, lhs.shape[-1])
    if bound < _EXACT_IN_F64:
        exact: Array = np.matmul(lhs.astype(np.float64), rhs.astype(np.float64))
        return exact.astype(np.int64)
    return np.asarray(np.matmul(lhs.astype(np.int64), rhs.astype(np.int64)))


def _largest(dtype: np.dtype[Any]) -> float:
    return 1.0 if dtype == np.bool_ else 2.0 ** (8 * dtype.itemsize)


def contract(
    lhs: Array,
    rhs: Array,
    batch: tuple[tuple[int, ...], tuple[int, ...]],
    contracting: tuple[tuple[int, ...], tuple[int, ...]],
    dtype: DType,
) -> Array:
    """Return the dot of two arrays, e.g. `[b,m,k]` and `[b,k,n]`, with elements of `dtype`.

    `batch` and `contracting` are dimensions of lhs and of rhs. The result has the batch
    dimensions, then the free ones of lhs, then those of rhs.
    """
    lhs_free = free_dims(lhs.ndim, batch[0], contracting[0])
    rhs_free = free_dims(rhs.ndim, batch[1], contracting[1])
    batch_sizes = tuple(lhs.shape[dim] for dim in batch[0])
    lhs_sizes = tuple(lhs.shape[dim] for dim in lhs_free)
    rhs_sizes = tuple(rhs.shape[dim] for dim in rhs_free)
    depth = prod(lhs.shape[dim] for dim in contracting[0])
    b, m, n = (prod(sizes) for sizes in (batch_sizes, lhs_sizes, rhs_sizes))
    left = lhs.transpose(*batch[0], *lhs_free, *contracting[0]).reshape(b, m, depth)
    right = rhs.transpose(*batch[1], *contracting[1], *rhs_free).reshape(b, depth, n)
    return batched_matmul(left, right, dtype).reshape(batch_sizes + lhs_sizes + rhs_sizes)


def free_dims(rank: int, *used: tuple[int, ...]) -> tuple[int, ...]:
    """Return the dimensions below `rank` that no list in `used` names."""
    taken = {dim for dims in used for dim in dims}
    return tuple(dim for dim in range(rank) if dim not in taken)
