"""Linear algebra: cholesky, triangular-solve, fft."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from hloc.dtypes import F32, F64, Array, complex_of, component_of
from hloc.ir.attribute_fields import attr
from hloc.ir.factors import FactorDraft
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import CallFunction, HostValue, Operands, ShapeRequest, define
from hloc.lazy_dataclass import dataclass
from hloc.ops.array_values import narrowed, oracle_type
from hloc.ops.checks import array_operand, require, same_size
from hloc.shapes import ArrayShape, Shape

TRANSPOSES = ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")
FFT_TYPES = ("FFT", "IFFT", "RFFT", "IRFFT")


@dataclass(frozen=True, slots=True, kw_only=True)
class CholeskyAttributes:
    lower: bool = attr("bool", default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TriangularSolveAttributes:
    """`transpose_a` "" is invalid and rejected by the shape rule."""

    left_side: bool = attr("bool", default=False)
    lower: bool = attr("bool", default=False)
    unit_diagonal: bool = attr("bool", default=False)
    transpose_a: str = attr("enum", default="", choices=TRANSPOSES)


@dataclass(frozen=True, slots=True, kw_only=True)
class FftAttributes:
    fft_type: str = attr("enum", choices=FFT_TYPES)
    fft_length: tuple[int, ...] = attr("int_list")


# ---------------------------------------------------------------- shape rules


def _square(name: str, request: ShapeRequest) -> ArrayShape:
    """Return the shape of operand 0, square float or complex matrices."""
    shape = array_operand(name, request, 0)
    require(
        shape.dtype.is_float or shape.dtype.is_complex,
        f"{name}: operand 0 must be of float or complex type, but is {shape.text_without_layout}",
    )
    require(
        shape.rank >= 2 and same_size(shape.dims[-1], shape.dims[-2]),
        f"{name}: operand 0 must hold square matrices, but is {shape.text_without_layout}",
    )
    return shape


def infer_cholesky(request: ShapeRequest) -> Shape:
    """Return the operand's shape, `f32[..., n, n]`."""
    return _square("cholesky", request)


def infer_triangular_solve(request: ShapeRequest) -> Shape:
    """Return the shape of b: `a` is `f32[..., n, n]`, `b` is `f32[..., n, k]` or `[..., k, n]`."""
    a, b = _square("triangular-solve", request), array_operand("triangular-solve", request, 1)
    attributes = request.attributes
    require(
        attributes.transpose_a in TRANSPOSES,
        f"triangular-solve: transpose_a must be one of {', '.join(TRANSPOSES)}",
    )
    shared = -2 if attributes.left_side else -1
    fits = (
        a.dtype is b.dtype
        and a.rank == b.rank
        and all(same_size(m, n) for m, n in zip(a.dims[:-2], b.dims[:-2], strict=True))
        and same_size(a.dims[-1], b.dims[shared])
    )
    require(
        fits,
        f"triangular-solve: operands {a.text_without_layout} and {b.text_without_layout} "
        f"do not fit with left_side={str(attributes.left_side).lower()}",
    )
    return b


def infer_fft(request: ShapeRequest) -> Shape:
    """Return the transformed shape: RFFT `f32[8,10]` -> `c64[8,6]`, IRFFT the other way.

    Arrays without elements may have any length, as in XLA.
    """
    operand = array_operand("fft", request, 0)
    kind, length = request.attributes.fft_type, request.attributes.fft_length
    require(
        1 <= len(length) <= 3 and len(length) <= operand.rank,
        f"fft: fft_length {list(length)} must name the last 1 to 3 dimensions of "
        f"{operand.text_without_layout}",
    )
    found = operand.dims[operand.rank - len(length) :]
    expected = (*length[:-1], length[-1] // 2 + 1) if kind == "IRFFT" else length
    require(
        all(same_size(m, n) for m, n in zip(found, expected, strict=True)) or 0 in operand.dims,
        f"fft: {kind} of length {list(length)} needs last dimensions {list(expected)}, "
        f"but operand 0 is {operand.text_without_layout}",
    )
    if kind == "RFFT":
        dtype = complex_of(operand.dtype)
        require(
            operand.dtype in (F32, F64),
            f"fft: RFFT needs f32 or f64, but operand 0 is {operand.text_without_layout}",
        )
        assert dtype is not None
        return ArrayShape(dtype, (*operand.dims[:-1], length[-1] // 2 + 1), operand.layout)
    require(
        operand.dtype.is_complex,
        f"fft: {kind} needs a complex type, but operand 0 is {operand.text_without_layout}",
    )
    if kind == "IRFFT":
        dims = (*operand.dims[:-1], length[-1])
        return ArrayShape(component_of(operand.dtype), dims, operand.layout)
    return operand


# ---------------------------------------------------------------- evaluation


def _evaluate_cholesky(inst: Instruction, operands: Operands, _call: CallFunction) -> HostValue:
    lower = inst.attributes.lower
    a = operands[0].astype(oracle_type(inst.array.dtype))
    triangle = np.tril(a) if lower else np.conj(np.swapaxes(np.triu(a), -1, -2))
    size = a.shape[-1]
    matrices = triangle.reshape(prod(a.shape[:-2]), size, size)
    factors = np.stack([_factor(m) for m in matrices]) if len(matrices) else matrices
    result = factors.reshape(a.shape)
    if not lower:
        result = np.conj(np.swapaxes(result, -1, -2))
    return narrowed(result, inst.array.dtype)


def _factor(triangle: Array) -> Array:
    """Return the lower factor of one matrix given by its lower triangle; NaN if there is none."""
    size = len(triangle)
    diagonal = np.real(np.diagonal(triangle)).copy()
    matrix = triangle + np.conj(np.tril(triangle, -1)).T
    np.fill_diagonal(matrix, diagonal)
    if not np.isfinite(matrix).all():
        return np.full((size, size), np.nan, triangle.dtype)
    try:
        return np.asarray(np.linalg.cholesky(matrix))
    except np.linalg.LinAlgError:
        return np.full((size, size), np.nan, triangle.dtype)


def _evaluate_triangular_solve(
    inst: Instruction, operands: Operands, _call: CallFunction
) -> HostValue:
    attributes = inst.attributes
    wide = oracle_type(inst.array.dtype)
    a, b = operands[0].astype(wide), operands[1].astype(wide)
    lower = attributes.lower
    if attributes.transpose_a != "NO_TRANSPOSE":
        a, lower = np.swapaxes(a, -1, -2), not lower
    if attributes.transpose_a == "ADJOINT":
        a = np.conj(a)
    if not attributes.left_side:  # x a = b is a^T x^T = b^T
        a, b, lower = np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2), not lower
    x = substitute(a, b, lower, attributes.unit_diagonal)
    if not attributes.left_side:
        x = np.swapaxes(x, -1, -2)
    return narrowed(x, inst.array.dtype)


def substitute(a: Array, b: Array, lower: bool, unit_diagonal: bool) -> Array:
    """Solve `a x = b` row by row; the other triangle of `a` is never read."""
    x = np.array(b)
    size = a.shape[-1]
    for row in range(size) if lower else reversed(range(size)):
        known = slice(0, row) if lower else slice(row + 1, size)
        products = np.matmul(a[..., row : row + 1, known], x[..., known, :])
        value = x[..., row, :] - products[..., 0, :]
        x[..., row, :] = value if unit_diagonal else value / a[..., row, row, np.newaxis]
    return x


def _evaluate_fft(inst: Instruction, operands: Operands, _call: CallFunction) -> HostValue:
    kind, length = inst.attributes.fft_type, inst.attributes.fft_length
    if 0 in inst.array.dims or operands[0].size == 0:
        return np.zeros(inst.array.dims, inst.array.dtype.numpy)
    transforms: dict[str, Callable[..., Array]] = {
        "FFT": np.fft.fftn,
        "IFFT": np.fft.ifftn,
        "RFFT": np.fft.rfftn,
        "IRFFT": np.fft.irfftn,
    }
    wide = np.float64 if kind == "RFFT" else np.complex128
    axes = tuple(range(-len(length), 0))
    return narrowed(
        transforms[kind](operands[0].astype(wide), s=length, axes=axes), inst.array.dtype
    )


# ---------------------------------------------------------------- factors


def _factors_of_cholesky(draft: FactorDraft, inst: Instruction) -> None:
    draft.link(range(inst.array.rank - 2), inst.array.dims)


def _factors_of_triangular_solve(draft: FactorDraft, inst: Instruction) -> None:
    rank = inst.array.rank
    draft.link(range(rank - 2), inst.array.dims)
    free = rank - 1 if inst.attributes.left_side else rank - 2
    draft.operands[1][free] = draft.results[0][free] = draft.factor(inst.array.dims[free])


def _factors_of_fft(draft: FactorDraft, inst: Instruction) -> None:
    sizes = inst.operands[0].array.dims
    draft.link(range(len(sizes) - len(inst.attributes.fft_length)), sizes)


# ---------------------------------------------------------------- rows

CHOLESKY = define(
    reads="cholesky(a) is l with l * conj(l)^T = a (lower) or conj(u)^T * u = a; NaN if none",
    infer=infer_cholesky,
    attributes=CholeskyAttributes,
    evaluate=_evaluate_cholesky,
    factors=_factors_of_cholesky,
)

TRIANGULAR_SOLVE = define(
    reads="triangular-solve(a, b) is x with op(a) x = b, or x op(a) = b, a triangular",
    infer=infer_triangular_solve,
    attributes=TriangularSolveAttributes,
    evaluate=_evaluate_triangular_solve,
    factors=_factors_of_triangular_solve,
)

FFT = define(
    reads="fft(x) is the Fourier transform of the last dimensions; inverses divide by n",
    infer=infer_fft,
    attributes=FftAttributes,
    evaluate=_evaluate_fft,
    factors=_factors_of_fft,
)
