"""Shape rules and evaluation helpers that several families of opcodes use.

If the text omits the shape (`declared` is None), inference is as lenient as XLA's: a scalar goes
with an array. Where `declared` is given the rule checks it, and is as strict as XLA's
verifier. Float types of different precision mix in both. Source: format reference 12.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from hloc.dtypes import DType
from hloc.errors import HloError
from hloc.ir.attributes import attr
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import (
    CallFunction,
    EvaluateFunction,
    HostValue,
    InferFunction,
    Operands,
    ShapeRequest,
)
from hloc.lazy_dataclass import dataclass
from hloc.shapes import UNBOUNDED, ArrayShape, BufferShape, Shape, TupleShape, same_dims

Array: TypeAlias = "np.ndarray[Any, Any]"
TypeTest: TypeAlias = Callable[[DType], bool]

# ---------------------------------------------------------------- attributes


@dataclass(frozen=True, slots=True, kw_only=True)
class DimensionsAttributes:
    """Dimensions of the operand: permutation of transpose, reversed ones, concatenated one."""

    dimensions: tuple[int, ...] = attr("int_list")


# ---------------------------------------------------------------- classes of element types


def is_float(dtype: DType) -> bool:
    return dtype.is_float


def is_float_or_complex(dtype: DType) -> bool:
    return dtype.is_float or dtype.is_complex


def is_integer(dtype: DType) -> bool:
    return dtype.is_integer


def is_pred_or_integer(dtype: DType) -> bool:
    return dtype.is_pred or dtype.is_integer


def is_numeric(dtype: DType) -> bool:
    """Integer, float or complex; not pred."""
    return dtype.is_integer or dtype.is_float or dtype.is_complex


def is_signed_numeric(dtype: DType) -> bool:
    """Signed integer, float or complex."""
    return dtype.is_signed or dtype.is_float or dtype.is_complex


def is_real(dtype: DType) -> bool:
    """Pred, integer or float: types with an order."""
    return not dtype.is_special and not dtype.is_complex


def is_real_number(dtype: DType) -> bool:
    """Integer or float."""
    return dtype.is_integer or dtype.is_float


def is_array_type(dtype: DType) -> bool:
    """Anything but token and opaque."""
    return not dtype.is_special


TYPE_CLASSES: dict[TypeTest, str] = {
    is_float: "a float",
    is_float_or_complex: "a float or complex",
    is_integer: "an integer",
    is_pred_or_integer: "pred or an integer",
    is_numeric: "an integer, float or complex",
    is_signed_numeric: "a signed integer, float or complex",
    is_real: "a pred, integer or float",
    is_real_number: "an integer or float",
    is_array_type: "an array",
}
"""How messages name each class."""

# ---------------------------------------------------------------- operands


def array_operand(request: ShapeRequest, index: int) -> ArrayShape:
    """Return the shape of operand `index`, e.g. `f32[8,128]`; raises HloError if no array."""
    return array_of(request.operands[index], f"operand {index}")


def array_of(shape: Shape, what: str) -> ArrayShape:
    """Return `shape`, which `what` has; raises HloError if it is no array."""
    if not isinstance(shape, ArrayShape) or shape.dtype.is_special:
        raise HloError(f"{what} has shape {shape}, but an array is needed")
    return shape


def declared_array(request: ShapeRequest) -> ArrayShape:
    """Return the written result shape; raises HloError if there is none or it is no array."""
    if request.declared is None:
        raise HloError("the result shape must be written, it cannot be inferred")
    return array_of(request.declared, "the result")


def check_type(shape: ArrayShape, allowed: TypeTest, what: str) -> None:
    """Raise HloError unless the element type of `shape` passes `allowed`."""
    if not allowed(shape.dtype):
        raise HloError(
            f"{what} has shape {shape.text_without_layout}, "
            f"but its element type must be {TYPE_CLASSES[allowed]} type"
        )


def check_dimensions(dims: Sequence[int], rank: int, of: str = "operand") -> None:
    """Raise HloError unless `dims` are different dimensions of an array of `rank`, the `of`."""
    for dim in dims:
        if not 0 <= dim < rank:
            raise HloError(f"dimensions has dimension {dim}, but the {of} has rank {rank}")
    if len(set(dims)) != len(dims):
        raise HloError(f"dimensions names a dimension twice: {{{','.join(map(str, dims))}}}")


def one_dimension(request: ShapeRequest, operand: ArrayShape) -> int:
    """Return the one dimension of `operand` that `dimensions` names."""
    dims = request.attributes.dimensions
    if len(dims) != 1 or not 0 <= dims[0] < operand.rank:
        raise HloError(
            f"dimensions={{{','.join(map(str, dims))}}} must name one dimension of "
            f"{operand.text_without_layout}"
        )
    return int(dims[0])


def check_same_elements(operand: ArrayShape, result: ArrayShape) -> None:
    """Raise HloError unless both have one element type and, as far as known, as many elements."""
    if operand.dtype is not result.dtype:
        raise HloError(f"operand has element type {operand.dtype}, result {result.dtype}")
    unbounded = UNBOUNDED in (*operand.dims, *result.dims)
    if not unbounded and operand.elements != result.elements:
        raise HloError(
            f"operand {operand.text_without_layout} has {operand.elements} elements, "
            f"but result {result.text_without_layout} has {result.elements}"
        )


def shapes_differ(
    index: int, found: ArrayShape, expected: ArrayShape, *notes: str, other: str = "operand 0"
) -> HloError:
    """Return the error that operand `index` does not have the shape of `other`."""
    return HloError(
        f"operand {index} has shape {found.text_without_layout}, "
        f"but {other} has shape {expected.text_without_layout}",
        notes=notes,
    )


# ---------------------------------------------------------------- element types of results


def _range_and_precision(dtype: DType) -> tuple[int, int, int]:
    return (dtype.exponent_bits, dtype.mantissa_bits, dtype.bits)


def promote(a: DType, b: DType) -> DType | None:
    """Return the type of an operation on `a` and `b`: themselves, the wider of two floats, or None.

    Of two floats the one with the larger range wins, then the one with more precision, as in XLA:
    `promote(BF16, F16)` is `bf16`.
    """
    if a is b:
        return a
    if a.is_float and b.is_float:
        return b if _range_and_precision(b) > _range_and_precision(a) else a
    return None


# ---------------------------------------------------------------- shape rules


def as_operand(request: ShapeRequest) -> Shape:
    """Return the shape of operand 0."""
    return request.operands[0]


def same_shape(allowed: TypeTest, result: Callable[[DType], DType] | None = None) -> InferFunction:
    """Return the rule "as operand 0, layout included", with `result` of its element type."""

    def infer(request: ShapeRequest) -> Shape:
        shape = array_operand(request, 0)
        check_type(shape, allowed, "operand 0")
        return shape if result is None else shape.with_dtype(result(shape.dtype))

    kind = TYPE_CLASSES[allowed]
    infer.__doc__ = f"Return the shape of operand 0, whose element type is {kind} type."
    return infer


def elementwise_binary(allowed: TypeTest, *, needed: TypeTest | None = None) -> InferFunction:
    """Return the rule of two operands of one shape, which is that of the result.

    Args:
        allowed: element types that inference accepts.
        needed: element types that are valid; required when a written shape is checked.
    """

    def infer(request: ShapeRequest) -> Shape:
        lhs, rhs = array_operand(request, 0), array_operand(request, 1)
        verifying = request.declared is not None
        check_type(lhs, needed if verifying and needed is not None else allowed, "operand 0")
        return joined(lhs, rhs, strict=verifying)

    kind = TYPE_CLASSES[needed or allowed]
    infer.__doc__ = f"Return the shape both operands have, whose element type is {kind} type."
    return infer


def joined(lhs: ArrayShape, rhs: ArrayShape, *, strict: bool = False) -> ArrayShape:
    """Return the shape of an elementwise operation: `f32[<=4]` with `f32[4]` is `f32[<=4]`.

    A scalar goes with any array and a dimension of size 1 with any size, as XLA infers, unless
    `strict`: a written shape is only right without implicit broadcast.

    Raises:
        HloError: element types or dimensions do not match.
    """
    dtype = promote(lhs.dtype, rhs.dtype)
    if dtype is None:
        raise shapes_differ(1, rhs, lhs, "element types must be equal; insert a convert")
    if strict and not same_dims(lhs, rhs):
        raise shapes_differ(1, rhs, lhs, NO_BROADCAST)
    if lhs.rank != rhs.rank:
        if lhs.rank and rhs.rank:
            raise shapes_differ(1, rhs, lhs, NO_BROADCAST)
        larger = lhs if lhs.rank else rhs
        return replace(larger, dtype=dtype, layout=None)
    if lhs.dims == rhs.dims and not lhs.dynamic and not rhs.dynamic:
        return lhs.with_dtype(dtype)
    return replace(_join_dimensions(lhs, rhs), dtype=dtype)


NO_BROADCAST = "HLO does not broadcast implicitly; insert a broadcast instruction"


def _join_dimensions(lhs: ArrayShape, rhs: ArrayShape) -> ArrayShape:
    dims, dynamic = [], []
    for dim, (m, n) in enumerate(zip(lhs.dims, rhs.dims, strict=True)):
        if m != n and 1 not in (m, n) and UNBOUNDED not in (m, n):
            raise shapes_differ(1, rhs, lhs, NO_BROADCAST)
        takes_rhs = m == 1 or (m == UNBOUNDED and n != 1)
        dims.append(n if takes_rhs else m)
        flags = (lhs.is_dynamic(dim), rhs.is_dynamic(dim))
        if m == n:
            dynamic.append(any(flags))
        else:
            dynamic.append(flags[1] if takes_rhs else flags[0])
    layout = lhs.layout if lhs.dims == rhs.dims else None
    return ArrayShape(lhs.dtype, tuple(dims), layout, tuple(dynamic))


# ---------------------------------------------------------------- evaluation


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
