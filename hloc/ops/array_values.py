"""Evaluation on NumPy arrays, for several families: types to compute in, and rounding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hloc.dtypes import Array, DType
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import (
    CallFunction,
    EvaluateFunction,
    HostValue,
    Operands,
)
from hloc.shapes import BufferShape, Shape, TupleShape


def compute_type(dtype: DType) -> np.dtype[Any]:
    """Return the NumPy type that one operation on `dtype` is computed in before it is rounded."""
    if dtype.is_float and dtype.bits < 32:
        return np.dtype(np.float32)
    if dtype.is_integer and dtype.bits < 8:
        return np.dtype(np.int8 if dtype.is_signed else np.uint8)
    return dtype.numpy


def oracle_type(dtype: DType) -> np.dtype[Any]:
    """Return a more precise type for a float or complex `dtype`, else its compute type.

    A type without zero gets f32, as in generated code: what vanishes there is NaN in the type.
    """
    if dtype.is_float:
        return np.dtype(np.float64 if dtype.has_sign else np.float32)
    if dtype.is_complex:
        return np.dtype(np.complex128)
    return compute_type(dtype)


def narrowed(value: Any, dtype: DType) -> Array:
    """Round or wrap a computed value to `dtype`."""
    array = np.asarray(value)
    if array.dtype == dtype.numpy:
        return array
    if dtype.is_integer and dtype.bits < 8:
        return wrap_small(array, dtype)
    if dtype.is_float and dtype.bits < 32 and array.dtype == np.float64:
        return round_once(array, dtype)
    return array.astype(dtype.numpy)


def wrap_small(array: Array, dtype: DType) -> Array:
    """Return integers in two's complement of the low `dtype.bits` bits."""
    low = array.astype(np.int64) & ((1 << dtype.bits) - 1)
    if dtype.is_signed:
        low = np.where(low >> (dtype.bits - 1), low - (1 << dtype.bits), low)
    byte = np.int8 if dtype.is_signed else np.uint8
    return np.asarray(low).astype(byte).astype(dtype.numpy)


def round_once(array: Array, dtype: DType) -> Array:
    """Round float64 to a narrow float without a second rounding on the way through float32.

    NumPy's casts from float64 to the types of `ml_dtypes` go through float32; rounding to odd
    there keeps the information that decides ties.
    """
    if dtype.numpy == np.float16:
        return array.astype(np.float16)
    single = array.astype(np.float32)
    bits = single.view(np.uint32)
    inexact = np.isfinite(array) & np.isfinite(single) & (single.astype(np.float64) != array)
    away = inexact & (np.abs(single.astype(np.float64)) > np.abs(array))
    truncated = bits - away.astype(np.uint32)
    odd = np.where(inexact, truncated | np.uint32(1), truncated).astype(np.uint32)
    return np.asarray(odd.view(np.float32).astype(dtype.numpy))


def pointwise(
    function: str | Callable[..., Any],
    computed_in: Callable[[DType], np.dtype[Any]] = compute_type,
) -> EvaluateFunction:
    """Return the evaluator of a function whose operands and result have one element type.

    A name is that of a NumPy function, looked up at the call: the table of opcodes
    is built before NumPy is imported.

    Only the element type of `inst.shape` is used: arrays may have more dimensions, which
    is how reducers are evaluated for all elements at once.
    """

    def evaluate(inst: Instruction, operands: Operands, call: CallFunction) -> HostValue:
        dtype = inst.array.dtype
        wide = computed_in(dtype)
        compute = getattr(np, function) if isinstance(function, str) else function
        with np.errstate(all="ignore"):
            values = [np.asarray(x).astype(wide, copy=False) for x in operands]
            return narrowed(compute(*values), dtype)

    return evaluate


def computed_wide(function: str | Callable[..., Any]) -> EvaluateFunction:
    """Return the evaluator of a function computed in a more precise type and rounded."""
    return pointwise(function, oracle_type)


def first_operand(_inst: Instruction, operands: Operands, _call: CallFunction) -> HostValue:
    """Evaluate to operand 0."""
    return operands[0]


def larger(x: Array, y: Array) -> Array:
    """Return the larger of each pair; NaN if either is NaN, +0 over -0."""
    return _extremum(np.maximum, np.logical_and, x, y)


def smaller(x: Array, y: Array) -> Array:
    """Return the smaller of each pair; NaN if either is NaN, -0 over +0."""
    return _extremum(np.minimum, np.logical_or, x, y)


def _extremum(function: Any, zero_sign: Any, x: Array, y: Array) -> Array:
    if x.dtype.kind != "f":
        return np.asarray(function(x, y))
    signed_zero = np.where(zero_sign(np.signbit(x), np.signbit(y)), -0.0, 0.0)
    both_zero = (x == 0) & (y == 0)
    return np.where(both_zero, signed_zero, function(x, y)).astype(x.dtype)


def unsigned_bits(array: Array, dtype: DType) -> Array:
    """Return the bits of integers as unsigned numbers of the same width: s4 -1 gives 15."""
    if dtype.bits < 8:
        return array.astype(np.int8).view(np.uint8) & np.uint8((1 << dtype.bits) - 1)
    return np.ascontiguousarray(array).view(f"u{dtype.storage_bytes}").reshape(array.shape)


def zeros_of(shape: Shape) -> HostValue:
    """Return a host value of zeros; None for a token."""
    if isinstance(shape, TupleShape):
        return tuple(map(zeros_of, shape.elements))
    array = shape.array if isinstance(shape, BufferShape) else shape
    return None if array.dtype.is_special else np.zeros(array.dims, array.dtype.numpy)
