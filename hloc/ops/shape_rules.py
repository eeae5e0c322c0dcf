"""Shape rules that several families of opcodes use.

If the text omits the shape (`declared` is None), inference is as lenient as XLA's: a scalar goes
with an array. Where `declared` is given the rule checks it, and is as strict as XLA's
verifier. Float types of different precision mix in both. Source: format reference 12.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from hloc.dtypes import DType
from hloc.errors import HloError
from hloc.ir.attribute_fields import attr
from hloc.ir.opcode import (
    InferFunction,
    ShapeRequest,
)
from hloc.lazy_dataclass import dataclass
from hloc.ops.type_classes import (
    TYPE_CLASSES,
    TypeTest,
    check_type,
)
from hloc.shapes import UNBOUNDED, ArrayShape, Shape, same_dims


@dataclass(frozen=True, slots=True, kw_only=True)
class DimensionsAttributes:
    """Dimensions of the operand: permutation of transpose, reversed ones, concatenated one."""

    dimensions: tuple[int, ...] = attr("int_list")


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
