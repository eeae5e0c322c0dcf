"""Cases of opcodes with structure: dimension numbers, windows, indices, called computations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fuzz.cases import contraction, control, indexing, window
from fuzz.draft import ARRAY_TYPES, COMPLEXES, NUMBERS, Draft, any_values
from hloc.dtypes import DTYPES, F32, F64, U64, DType
from hloc.ir.attributes import PaddingDimension, SliceDimension
from hloc.ir.instruction import Instruction
from hloc.shapes import ArrayShape, Layout, TupleShape

LINEAR = (F32, F64, *COMPLEXES)

# ---------------------------------------------------------------- moving data


def broadcast(d: Draft) -> str:
    dims = d.dims(0, 3, limit=60)
    dtype = d.pick(ARRAY_TYPES)
    result, places = list(dims), list(range(len(dims)))
    for _ in range(d.integer(0, 2)):
        at = d.integer(0, len(result))
        result.insert(at, d.pick((2, 1, 3, 7, 0)))
        places = [p + (p >= at) for p in places]
    shape = ArrayShape(dtype, tuple(result))
    d.add("broadcast", [d.any_array(dtype, dims)], shape=shape, dimensions=tuple(places))
    return "exact"


def reshape(d: Draft) -> str:
    dtype, dims = d.pick(ARRAY_TYPES), d.dims()
    x = d.any_array(dtype, dims)
    d.add("reshape", [x], shape=ArrayShape(dtype, _regrouped(d, dims)))
    return "exact"


def _regrouped(d: Draft, dims: tuple[int, ...]) -> tuple[int, ...]:
    """Return other sizes with as many elements: neighbours joined, ones put in, any order."""
    sizes = [dims[i] for i in d.order(len(dims))]
    if len(sizes) > 1 and d.flag():
        sizes[:2] = [sizes[0] * sizes[1]]
    for _ in range(d.integer(0, 2)):
        sizes.insert(d.integer(0, len(sizes)), 1)
    return tuple(sizes)


def bitcast(d: Draft) -> str:
    """Row-major memory read with other sizes, or the same sizes read in another layout."""
    dtype, dims = d.pick(ARRAY_TYPES), d.dims()
    b = d.entry
    x = b.copy(d.any_array(dtype, dims))
    b.computation.set_shape(x, ArrayShape(dtype, dims))
    if d.flag():
        shape = ArrayShape(dtype, _regrouped(d, dims))
    else:
        order = d.order(len(dims))
        # Dimension order[i] of the result is dimension i of x, and lies where that lay.
        sizes = [0] * len(dims)
        for i, dim in enumerate(order):
            sizes[dim] = dims[i]
        minor_to_major = tuple(order[i] for i in reversed(range(len(dims))))
        shape = ArrayShape(dtype, tuple(sizes), Layout(minor_to_major))
    d.results.append(b.bitcast(x, shape))
    return "exact"


def transpose(d: Draft) -> str:
    dtype, dims = d.pick(ARRAY_TYPES), d.dims()
    d.add("transpose", [d.any_array(dtype, dims)], dimensions=d.order(len(dims)))
    return "exact"


def reverse(d: Draft) -> str:
    dtype, dims = d.pick(ARRAY_TYPES), d.dims()
    d.add("reverse", [d.any_array(dtype, dims)], dimensions=d.some(range(len(dims))))
    return "exact"


def slice_(d: Draft) -> str:
    dtype, dims = d.pick(ARRAY_TYPES), d.dims()
    ranges = []
    for size in dims:
        start = d.integer(0, size)
        ranges.append(SliceDimension(start, d.integer(start, size), d.pick((1, 2, 3))))
    sizes = tuple(-(-(r.limit - r.start) // r.stride) for r in ranges)
    x = d.any_array(dtype, dims)
    d.add("slice", [x], shape=ArrayShape(dtype, sizes), slice=tuple(ranges))
    return "exact"


def pad(d: Draft) -> str:
    dtype, dims = d.pick(ARRAY_TYPES), d.dims(0, 3, limit=60)
    padding = []
    for size in dims:
        interior = d.pick((0, 1, 2))
        whole = size + max(0, size - 1) * interior
        low = d.integer(-min(whole, 2), 2)
        padding.append(PaddingDimension(low, d.integer(max(-2, -(whole + low)), 2), interior))
    d.add("pad", [d.any_array(dtype, dims), d.any_array(dtype, ())], padding=tuple(padding))
    return "exact"


def concatenate(d: Draft) -> str:
    dtype, dims = d.pick(ARRAY_TYPES), d.dims(1, 3, limit=60)
    dim = d.integer(0, len(dims) - 1)
    operands = []
    for _ in range(d.integer(1, 4)):
        sizes = (*dims[:dim], d.pick((1, 2, 0, 5)), *dims[dim + 1 :])
        operands.append(d.any_array(dtype, sizes))
    d.add("concatenate", operands, dimensions=(dim,))
    return "exact"


def iota(d: Draft) -> str:
    dtype, dims = d.pick(NUMBERS), d.dims(1, 3)
    shape = ArrayShape(dtype, dims)
    d.add("iota", [], shape=shape, iota_dimension=d.integer(0, len(dims) - 1))
    return "exact"


def constant(d: Draft) -> str:
    dtype, dims = d.pick(ARRAY_TYPES), d.dims()
    d.tame_array(F32, ())
    d.results.append(d.entry.constant(any_values(d.random, dtype, dims), dtype))
    return "exact"


# ---------------------------------------------------------------- order and random bits


def sort(d: Draft) -> str:
    """Draw a stable sort by the first of one to three operands, along any dimension."""
    dims = d.dims(1, 3)
    keys = d.pick(ARRAY_TYPES)
    types = [keys, *(d.pick(ARRAY_TYPES) for _ in range(d.integer(0, 2)))]
    scalars = [ArrayShape(dtype) for dtype in types for _ in range(2)]
    b, parameters = d.computation("before", scalars)
    direction = d.pick(("LT", "GT"))
    if keys.is_complex:
        x, y = (b.instruction("real", (p,)) for p in parameters[:2])
        part = x.array.dtype
    else:
        (x, y), part = parameters[:2], keys
    kind = "TOTALORDER" if part.is_float else ""
    b.computation.set_root(b.compare(x, y, direction, kind))
    operands = [d.any_array(dtype, dims) for dtype in types]
    dim = d.integer(0, len(dims) - 1)
    d.add("sort", operands, [b.computation], dimensions=(dim,), is_stable=True)
    return "exact"


def topk(d: Draft) -> str:
    dtype = d.pick([t for t in ARRAY_TYPES if not t.is_complex and not t.is_pred])
    dims = d.dims(1, 3)
    k = d.integer(0, dims[-1])
    d.add("topk", [d.any_array(dtype, dims)], k=k, largest=d.flag())
    return "exact"


def rng_bit_generator(d: Draft) -> str:
    algorithm = d.pick(("rng_three_fry", "rng_philox", "rng_default"))
    sizes = (2,) if algorithm == "rng_three_fry" else d.pick(((2,), (3,)))
    state = d.any_array(U64, sizes)
    bits = ArrayShape(d.pick([DTYPES[f"u{w}"] for w in (32, 8, 16, 64)]), d.dims())
    shape = TupleShape((ArrayShape(U64, sizes), bits))
    d.add("rng-bit-generator", [state], shape=shape, algorithm=algorithm)
    return "exact"


# ---------------------------------------------------------------- linear algebra


def fft(d: Draft) -> str:
    kind = d.pick(("FFT", "IFFT", "RFFT", "IRFFT"))
    lengths = d.dims(1, 3, sizes=(4, 1, 2, 3, 5, 6, 7, 8, 12, 16, 17), limit=200)
    outer = d.dims(0, 1, sizes=(1, 2, 0))
    wide = d.flag()
    dims = [*outer, *lengths]
    if kind == "IRFFT":
        dims[-1] = lengths[-1] // 2 + 1
    real, complex_ = ("f64", "c128") if wide else ("f32", "c64")
    x = d.tame_array(DTYPES[real if kind == "RFFT" else complex_], dims)
    d.add("fft", [x], fft_type=kind, fft_length=tuple(lengths))
    return "table"


def _matrices(d: Draft, dtype: DType, outer: tuple[int, ...], size: int) -> np.ndarray:
    """Return well-conditioned matrices: noise and a strong diagonal."""
    noise = d.random.standard_normal((*outer, size, size))
    if dtype.is_complex:
        noise = noise + 1j * d.random.standard_normal((*outer, size, size))
    return noise + 4 * size * np.eye(size)


def cholesky(d: Draft) -> str:
    dtype, outer = d.pick(LINEAR), d.dims(0, 2, sizes=(2, 1, 3, 0), limit=6)
    size = d.pick((2, 1, 3, 5, 8, 0))
    a = _matrices(d, dtype, outer, size)
    if a.size and d.flag():
        a[..., -1, -1] = -1.0  # not positive definite: NaN
    d.add("cholesky", [d.parameter(a, dtype)], lower=d.flag())
    return "table"


def triangular_solve(d: Draft) -> str:
    dtype, outer = d.pick(LINEAR), d.dims(0, 2, sizes=(2, 1, 3, 0), limit=6)
    size, columns, left = d.pick((2, 1, 3, 5, 8, 0)), d.pick((1, 2, 5, 0)), d.flag()
    a = d.parameter(_matrices(d, dtype, outer, size) / max(1, size), dtype)
    b = d.tame_array(dtype, (*outer, size, columns) if left else (*outer, columns, size))
    d.add(
        "triangular-solve",
        [a, b],
        left_side=left,
        lower=d.flag(),
        unit_diagonal=size <= 2 and d.flag(),
        transpose_a=d.pick(("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")),
    )
    return "table"


# ---------------------------------------------------------------- normalisation


def _channel_arrays(d: Draft, dtype: DType, size: int, count: int) -> list[Instruction]:
    return [d.tame_array(dtype, (size,)) for _ in range(count)]


def _variance(d: Draft, dtype: DType, size: int) -> Instruction:
    return d.parameter(np.asarray(d.random.random(size) + 0.5).astype(dtype.numpy), dtype)


def _norm(d: Draft) -> tuple[DType, tuple[int, ...], int]:
    dims = d.dims(1, 4, sizes=(2, 1, 3, 5))
    return d.pick((F32, F64)), dims, d.integer(0, len(dims) - 1)


def batch_norm_inference(d: Draft) -> str:
    dtype, dims, feature = _norm(d)
    x = d.tame_array(dtype, dims)
    arrays = _channel_arrays(d, dtype, dims[feature], 3)
    operands = [x, *arrays, _variance(d, dtype, dims[feature])]
    d.add("batch-norm-inference", operands, epsilon=0.01, feature_index=feature)
    return "table"


def batch_norm_training(d: Draft) -> str:
    dtype, dims, feature = _norm(d)
    x = d.tame_array(dtype, dims)
    operands = [x, *_channel_arrays(d, dtype, dims[feature], 2)]
    d.add("batch-norm-training", operands, epsilon=0.01, feature_index=feature)
    return "table"


def batch_norm_grad(d: Draft) -> str:
    dtype, dims, feature = _norm(d)
    x = d.tame_array(dtype, dims)
    scale, mean = _channel_arrays(d, dtype, dims[feature], 2)
    variance = _variance(d, dtype, dims[feature])
    operands = [x, scale, mean, variance, d.tame_array(dtype, dims)]
    d.add("batch-norm-grad", operands, epsilon=0.01, feature_index=feature)
    return "table"


CASES: dict[str, Callable[[Draft], str]] = {
    "batch-norm-grad": batch_norm_grad,
    "batch-norm-inference": batch_norm_inference,
    "batch-norm-training": batch_norm_training,
    "bitcast": bitcast,
    "broadcast": broadcast,
    "cholesky": cholesky,
    "concatenate": concatenate,
    "constant": constant,
    "fft": fft,
    "iota": iota,
    "pad": pad,
    "reshape": reshape,
    "reverse": reverse,
    "rng-bit-generator": rng_bit_generator,
    "slice": slice_,
    "sort": sort,
    "topk": topk,
    "transpose": transpose,
    "triangular-solve": triangular_solve,
    **contraction.CASES,
    **control.CASES,
    **indexing.CASES,
    **window.CASES,
}

NOT_DRAWN = {
    "parameter": "in every drawn module, but for constant and iota; no instruction of its own",
    **dict.fromkeys(
        (
            "all-gather-done",
            "all-gather-start",
            "collective-permute-done",
            "collective-permute-start",
            "ragged-all-to-all",
        ),
        "only the evaluator runs it for one participant; tests/unit/ops/test_exchanges.py",
    ),
    "rng": "its numbers are the implementation's own; the distribution is tested in tests/unit/ops",
}
"""Opcodes without a case that are not refused either, with the reason."""
