"""Operations without operands: parameter, constant, iota. Rules: format reference 12.4."""

from __future__ import annotations

import numpy as np

from hloc.errors import HloError
from hloc.ir.attribute_fields import attr
from hloc.ir.factors import FactorDraft
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import CallFunction, HostValue, Operands, ShapeRequest, define
from hloc.lazy_dataclass import dataclass
from hloc.literal import Literal
from hloc.ops.array_values import wrap_small
from hloc.ops.shape_rules import declared_array
from hloc.ops.type_classes import is_numeric
from hloc.shapes import Shape, compatible


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterAttributes:
    """`parameter(0)`."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantAttributes:
    """`constant({1, 2})`."""

    literal: Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class IotaAttributes:
    """The dimension along which values count up."""

    iota_dimension: int = attr("int")


def _infer_parameter(request: ShapeRequest) -> Shape:
    """Return the declared shape."""
    if request.attributes.number < 0:
        raise HloError(f"parameter number {request.attributes.number} is negative")
    if request.declared is None:
        raise HloError("the shape of a parameter must be written")
    return request.declared


def _infer_constant(request: ShapeRequest) -> Shape:
    """Check the declared shape against the literal."""
    literal: Literal = request.attributes.literal
    if request.declared is None:
        return literal.shape
    if not compatible(request.declared, literal.shape):
        raise HloError(
            f"constant has shape {request.declared.text_without_layout}, "
            f"but its literal has shape {literal.shape.text_without_layout}"
        )
    return request.declared


def _literal_value(literal: Literal) -> HostValue:
    if literal.value is None:
        raise HloError("the values of a constant were left out of the text: constant({...})")
    if isinstance(literal.value, tuple):
        return tuple(_literal_value(part) for part in literal.value)
    return literal.value


def _infer_iota(request: ShapeRequest) -> Shape:
    """Return the declared shape of numbers, which has dimension `iota_dimension`."""
    shape = declared_array(request)
    dim = request.attributes.iota_dimension
    if not is_numeric(shape.dtype):
        raise HloError(f"iota has element type {shape.dtype}, but a number is needed")
    if not 0 <= dim < shape.rank:
        raise HloError(f"iota_dimension is {dim}, but the result has rank {shape.rank}")
    return shape


def _evaluate_iota(inst: Instruction, operands: Operands, call: CallFunction) -> HostValue:
    shape, dim = inst.array, inst.attributes.iota_dimension
    count = np.arange(shape.dims[dim], dtype=np.int64)
    small = shape.dtype.is_integer and shape.dtype.bits < 8
    values = wrap_small(count, shape.dtype) if small else count.astype(shape.dtype.numpy)
    lined_up = values.reshape([-1 if d == dim else 1 for d in range(shape.rank)])
    return np.broadcast_to(lined_up, shape.dims)


def _factors_of_iota(draft: FactorDraft, inst: Instruction) -> None:
    for dim, size in enumerate(inst.array.dims):
        draft.results[0][dim] = draft.factor(size)


PARAMETER = define(
    reads="parameter(n) is argument n of the computation",
    arity=0,
    infer=_infer_parameter,
    shape_required=True,
    attributes=ParameterAttributes,
    parenthesis="number",
    nop=True,
)
CONSTANT = define(
    reads="constant(v) is v",
    arity=0,
    infer=_infer_constant,
    shape_required=True,
    attributes=ConstantAttributes,
    parenthesis="literal",
    evaluate=lambda inst, _operands, _call: _literal_value(inst.attributes.literal),
    nop=True,
)
IOTA = define(
    reads="iota()[..i..] = i along iota_dimension, converted from s64 to the result type",
    infer=_infer_iota,
    shape_required=True,
    attributes=IotaAttributes,
    evaluate=_evaluate_iota,
    factors=_factors_of_iota,
    keeps_finite=True,
)
