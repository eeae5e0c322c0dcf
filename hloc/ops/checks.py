"""Checks that shape rules of structured opcodes share; each failure names opcode, operand, shapes.

Source: XLA's shape inference and verifier, as listed in the system reference, part 3.3.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloc.dtypes import TOKEN, DType
from hloc.errors import HloError
from hloc.ir.computation import Computation
from hloc.ir.opcode import ShapeRequest
from hloc.shapes import UNBOUNDED, ArrayShape, Shape, TupleShape, compatible


def require(condition: bool, message: str) -> None:
    """Raise `HloError(message)` unless `condition` holds."""
    if not condition:
        raise HloError(message)


def array_operand(name: str, request: ShapeRequest, index: int) -> ArrayShape:
    """Return the shape of operand `index`, which must be an array (no tuple, token, buffer)."""
    shape = request.operands[index]
    if isinstance(shape, ArrayShape) and not shape.dtype.is_special:
        return shape
    raise HloError(f"{name}: operand {index} must be an array, but is {shape.text_without_layout}")


def check_token(name: str, request: ShapeRequest, index: int) -> None:
    """Require operand `index` to be a token."""
    shape = request.operands[index]
    require(
        isinstance(shape, ArrayShape) and shape.dtype is TOKEN,
        f"{name}: operand {index} must be token[], but is {shape.text_without_layout}",
    )


def array_operands(name: str, request: ShapeRequest) -> tuple[ArrayShape, ...]:
    """Return the shapes of all operands, which must be arrays."""
    return tuple(array_operand(name, request, index) for index in range(len(request.operands)))


def declared_shape(name: str, request: ShapeRequest) -> Shape:
    """Return the shape the text wrote, which a rule that cannot infer needs."""
    if request.declared is None:
        raise HloError(f"{name}: the result shape cannot be inferred and must be written")
    return request.declared


def declared_tuple(name: str, request: ShapeRequest, size: int) -> TupleShape:
    """Return the declared shape, a tuple of at least `size` elements."""
    shape = declared_shape(name, request)
    if isinstance(shape, TupleShape) and len(shape.elements) >= size:
        return shape
    raise HloError(
        f"{name}: the result must be a tuple of at least {size} elements, "
        f"but is {shape.text_without_layout}"
    )


def same_size(a: int, b: int) -> bool:
    """True if the two sizes of a dimension agree; `?` agrees with any."""
    return a == b or UNBOUNDED in (a, b)


def same_type(a: DType, b: DType) -> bool:
    """True if the types agree, or are floats of any two precisions."""
    return a is b or (a.is_float and b.is_float)


def check_dims(name: str, what: str, dims: Sequence[int], rank: int) -> None:
    """Require every entry of `dims` to be a dimension below `rank`, each at most once."""
    for dim in dims:
        require(
            0 <= dim < rank, f"{name}: {what} {dim} is out of range for an array of rank {rank}"
        )
    require(len(set(dims)) == len(dims), f"{name}: {what} {list(dims)} names a dimension twice")


def check_sorted(name: str, what: str, dims: Sequence[int]) -> None:
    """Require `dims` to ascend."""
    require(list(dims) == sorted(dims), f"{name}: {what} {list(dims)} must ascend")


def check_compatible(name: str, what: str, found: Shape, expected: Shape) -> None:
    """Require two shapes to agree in types and dimensions."""
    require(
        compatible(found, expected),
        f"{name}: {what} has shape {found.text_without_layout}, "
        f"but {expected.text_without_layout} is expected",
    )


def check_parameters(
    name: str, computation: Computation, expected: Sequence[Shape], *, mixed: bool = False
) -> Shape:
    """Require `computation` to take `expected` and return the shape of its root.

    Args:
        name: opcode, for messages.
        computation: the called computation.
        expected: shapes of the arguments.
        mixed: scalar parameters may have another float precision than the arguments.
    """
    parameters = computation.parameters
    require(
        len(parameters) == len(expected),
        f"{name}: computation {computation.name} takes {len(parameters)} parameters, "
        f"but {len(expected)} arguments are passed",
    )
    for number, (parameter, shape) in enumerate(zip(parameters, expected, strict=True)):
        found = parameter.shape
        if mixed and isinstance(found, ArrayShape) and isinstance(shape, ArrayShape):
            agrees = found.dims == shape.dims and same_type(found.dtype, shape.dtype)
        else:
            agrees = compatible(found, shape)
        require(
            agrees,
            f"{name}: parameter {number} of computation {computation.name} has shape "
            f"{found.text_without_layout}, but {shape.text_without_layout} is passed",
        )
    return computation.root.shape


def scalar_of(shape: ArrayShape) -> ArrayShape:
    """Return the scalar shape of the element type of `shape`."""
    return ArrayShape(shape.dtype)


def wider(a: DType, b: DType) -> DType:
    """Return the more precise of two types: complex before float before integer before pred.

    Source: XLA's choice for a dot or convolution of mixed types (`bf16` with `s4` is `bf16`).
    """
    return max(a, b, key=lambda dtype: (_CLASSES.index(dtype.kind), dtype.bits))


_CLASSES = ("special", "pred", "unsigned", "signed", "float", "complex")


def result_type(name: str, inferred: DType, declared: Shape | None) -> DType:
    """Return the declared element type, or `inferred`; integers must not get narrower."""
    if not isinstance(declared, ArrayShape) or declared.dtype is inferred:
        return inferred
    wanted = declared.dtype
    fits = inferred.is_float or wanted.bits >= inferred.bits
    require(
        fits and not wanted.is_special,
        f"{name}: a result of type {inferred} cannot be declared as {wanted}",
    )
    return wanted
