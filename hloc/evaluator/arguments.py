"""Conversion between arrays and host values: arguments, literals, results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from hloc.dtypes import dtype_of_numpy
from hloc.errors import HloError
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import HostValue
from hloc.literal import Literal
from hloc.shapes import ArrayShape, BufferShape, Shape, TupleShape, leaves


def bound_arguments(
    entry: Computation, arguments: Sequence[np.ndarray[Any, Any]]
) -> list[HostValue]:
    """Return one host value per parameter; raises HloError if the arguments do not fit."""
    wanted = [
        (parameter, _array_part(shape))
        for parameter in entry.parameters
        for _, shape in leaves(parameter.shape)
        if not _array_part(shape).dtype.is_special
    ]
    if len(wanted) != len(arguments):
        raise HloError(
            f"computation {entry.name} takes {len(wanted)} arrays, but {len(arguments)} were given"
        )
    arrays = iter(
        _checked_argument(parameter, shape, argument)
        for (parameter, shape), argument in zip(wanted, arguments, strict=True)
    )
    return [_nested(parameter.shape, arrays) for parameter in entry.parameters]


def _array_part(shape: ArrayShape | BufferShape) -> ArrayShape:
    return shape.array if isinstance(shape, BufferShape) else shape


def _checked_argument(
    parameter: Instruction, shape: ArrayShape, argument: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    array = np.asarray(argument)
    if _fits(array, shape) and array.dtype == shape.dtype.numpy:
        return array
    found = dtype_of_numpy(array.dtype)
    text = f"{found or array.dtype}[{','.join(map(str, array.shape))}]"
    raise HloError(
        f"parameter {parameter.attributes.number} ({parameter.name}) is "
        f"{shape.text_without_layout}, but the argument is {text}",
        parameter.span,
    )


def _fits(array: np.ndarray[Any, Any], shape: ArrayShape) -> bool:
    """True if every dimension has the declared size, a dynamic one at most that size."""
    return array.ndim == shape.rank and all(
        size == bound or (size < bound and shape.is_dynamic(dim))
        for dim, (size, bound) in enumerate(zip(array.shape, shape.dims, strict=True))
    )


def _nested(shape: Shape, arrays: Iterator[np.ndarray[Any, Any]]) -> HostValue:
    """Create the host value of `shape` from arrays in order."""
    if isinstance(shape, TupleShape):
        return tuple(_nested(element, arrays) for element in shape.elements)
    return None if _array_part(shape).dtype.is_special else next(arrays)


def literal_value(literal: Literal, *, fill_zeros: bool) -> HostValue:
    """Return the host value of a literal; elided parts are zero, or an error."""
    if isinstance(literal.value, tuple):
        return tuple(literal_value(part, fill_zeros=fill_zeros) for part in literal.value)
    if literal.value is not None:
        return literal.value
    if not fill_zeros:
        raise HloError(
            f"the values of {literal.shape.text_without_layout} constant({{...}}) are elided",
            notes=('fill_constants="zeros" runs the module with zeros instead',),
        )
    assert isinstance(literal.shape, ArrayShape)
    return np.zeros(literal.shape.dims, literal.shape.dtype.numpy)
