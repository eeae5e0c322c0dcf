"""Orders and random numbers: sort, topk, rng, rng-bit-generator."""

from __future__ import annotations

import numpy as np

from hloc.dtypes import PRED, S32, U64, Array
from hloc.errors import UnsupportedError
from hloc.ir.attribute_fields import attr
from hloc.ir.computation import Computation
from hloc.ir.factors import FactorDraft
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import (
    CalledRole,
    CallFunction,
    HostValue,
    Operands,
    ShapeRequest,
    define,
)
from hloc.lazy_dataclass import dataclass
from hloc.ops.checks import (
    array_operand,
    array_operands,
    check_compatible,
    check_dims,
    check_parameters,
    declared_shape,
    declared_tuple,
    require,
    scalar_of,
)
from hloc.ops.comparators import order_by_keys
from hloc.ops.factors import dims_not_named
from hloc.ops.folding import map_scalars
from hloc.ops.ordering import stable_order, topk
from hloc.ops.random_bits import philox, three_fry
from hloc.ops.reducers import check_equal_dims, one_or_tuple
from hloc.ops.rng import draw
from hloc.shapes import ArrayShape, Shape, TupleShape

DISTRIBUTIONS = ("rng_uniform", "rng_normal")
ALGORITHMS = ("rng_default", "rng_three_fry", "rng_philox")


@dataclass(frozen=True, slots=True, kw_only=True)
class SortAttributes:
    dimensions: tuple[int, ...] = attr("int_list")
    is_stable: bool = attr("bool", default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopKAttributes:
    """`is_stable` False allows equal values in any order; here they keep theirs."""

    k: int = attr("int")
    largest: bool = attr("bool", default=True, always=True)
    is_stable: bool = attr("bool", default=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class RngAttributes:
    distribution: str = attr("enum", choices=DISTRIBUTIONS, fold_case=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class RngBitGeneratorAttributes:
    algorithm: str = attr("enum", choices=ALGORITHMS, fold_case=True)


# ---------------------------------------------------------------- shape rules


def infer_sort(request: ShapeRequest) -> Shape:
    """Return the operands' shapes, a tuple if there are several."""
    shapes = array_operands("sort", request)
    require(bool(shapes), "sort: expected at least 1 operand, but found 0")
    check_equal_dims("sort", shapes)
    dimensions = request.attributes.dimensions
    require(len(dimensions) == 1, f"sort: expected one dimension, but found {list(dimensions)}")
    check_dims("sort", "dimension", dimensions, shapes[0].rank)
    arguments = tuple(scalar_of(shape) for shape in shapes for _ in range(2))
    comparator = request.called[0]
    root = check_parameters("sort", comparator, arguments)
    check_compatible("sort", f"the result of {comparator.name}", root, ArrayShape(PRED))
    return one_or_tuple(shapes)


def infer_topk(request: ShapeRequest) -> Shape:
    """Return `(values, indices)`: `f32[3,9]`, k=2 -> `(f32[3,2], s32[3,2])`."""
    operand = array_operand("topk", request, 0)
    k = request.attributes.k
    require(operand.rank >= 1, "topk: operand 0 must have at least one dimension")
    require(
        not operand.dtype.is_complex,
        f"topk: operand 0 is {operand.text_without_layout}, but complex numbers have no order",
    )
    require(
        0 <= k <= operand.dims[-1],
        f"topk: k is {k}, but the last dimension of {operand.text_without_layout} "
        f"has {operand.dims[-1]} elements",
    )
    dims = (*operand.dims[:-1], k)
    return TupleShape((ArrayShape(operand.dtype, dims), ArrayShape(S32, dims)))


def infer_rng(request: ShapeRequest) -> Shape:
    """Check the declared shape against two scalar parameters of its element type."""
    declared = declared_shape("rng", request)
    require(
        len(request.operands) == 2, f"rng: expected 2 operands, but found {len(request.operands)}"
    )
    require(
        isinstance(declared, ArrayShape) and not declared.dtype.is_special,
        f"rng: the result must be an array, but is {declared.text_without_layout}",
    )
    assert isinstance(declared, ArrayShape)
    require(
        not declared.dtype.is_complex,
        f"rng: the result is {declared.text_without_layout}, but cannot be complex",
    )
    for index in range(2):
        shape = array_operand("rng", request, index)
        check_compatible("rng", f"operand {index}", shape, scalar_of(declared))
    is_normal = request.attributes.distribution == "rng_normal"
    require(
        not is_normal or declared.dtype.is_float,
        f"rng: rng_normal needs a float type, but the result is {declared.text_without_layout}",
    )
    return declared


def infer_rng_bit_generator(request: ShapeRequest) -> Shape:
    """Check the declared `(state, bits)`, the state as operand 0; or the bits alone, as in XLA."""
    name = "rng-bit-generator"
    require(
        len(request.operands) == 1, f"{name}: expected 1 operand, but found {len(request.operands)}"
    )
    state = array_operand(name, request, 0)
    if isinstance(request.declared, ArrayShape):
        return request.declared
    declared = declared_tuple(name, request, 2)
    require(
        len(declared.elements) == 2 and isinstance(declared.elements[1], ArrayShape),
        f"{name}: the result must be (state, bits), but is {declared.text_without_layout}",
    )
    check_compatible(name, "element 0 of the result", declared.elements[0], state)
    return declared


# ---------------------------------------------------------------- evaluation


def _evaluate_sort(inst: Instruction, operands: Operands, call: CallFunction) -> HostValue:
    (dim,) = inst.attributes.dimensions
    moved = [np.moveaxis(operand, dim, -1) for operand in operands]
    size = moved[0].shape[-1]
    if moved[0].size == 0:
        return operands if len(operands) > 1 else operands[0]
    columns = tuple(array.reshape(-1, size) for array in moved)
    order = order_by_keys(inst.called[0], columns)
    if order is None:
        order = _order_by(inst.called[0], columns, call)
    results = tuple(
        np.moveaxis(np.take_along_axis(column, order, axis=1).reshape(array.shape), -1, dim)
        for column, array in zip(columns, moved, strict=True)
    )
    return results if len(results) > 1 else results[0]


def _order_by(comparator: Computation, columns: tuple[Array, ...], call: CallFunction) -> Array:
    def precedes(a: tuple[Array, ...], b: tuple[Array, ...]) -> Array:
        arguments = [value for pair in zip(a, b, strict=True) for value in pair]
        return map_scalars(call, comparator, arguments, a[0].shape)[0]

    return stable_order(columns, precedes)


def _evaluate_topk(inst: Instruction, operands: Operands, _call: CallFunction) -> HostValue:
    values, order = topk(operands[0], inst.attributes.k, largest=inst.attributes.largest)
    return values, order.astype(np.int32)


def _evaluate_rng(inst: Instruction, operands: Operands, _call: CallFunction) -> HostValue:
    """Draw from the stream of the instruction's id; HLO does not define the stream."""
    a, b = operands
    array = inst.array
    return draw(inst.uid, inst.attributes.distribution, a, b, array.dtype, array.dims)


def _evaluate_rng_bit_generator(
    inst: Instruction, operands: Operands, _call: CallFunction
) -> HostValue:
    (state,) = operands
    check_generator(inst)
    shape = inst.shape.elements[1] if isinstance(inst.shape, TupleShape) else inst.shape
    assert isinstance(shape, ArrayShape)
    three = inst.attributes.algorithm == "rng_three_fry"
    new_state, bits = (three_fry if three else philox)(state, shape.dims, shape.dtype)
    typed = bits.reshape(shape.dims).view(shape.dtype.numpy)
    return (new_state, typed) if isinstance(inst.shape, TupleShape) else typed


def check_generator(inst: Instruction) -> None:
    """Raise unless the state and bits of an rng-bit-generator are valid for its algorithm."""
    shape = inst.shape.elements[1] if isinstance(inst.shape, TupleShape) else inst.shape
    assert isinstance(shape, ArrayShape)
    sizes = (2,) if inst.attributes.algorithm == "rng_three_fry" else (2, 3)
    state_shape = inst.operands[0].array
    if state_shape.dtype is not U64 or state_shape.rank != 1 or state_shape.dims[0] not in sizes:
        raise UnsupportedError(
            f"{inst.name}: the state of {inst.attributes.algorithm} must be "
            f"{' or '.join(f'u64[{size}]' for size in sizes)}, "
            f"but is {state_shape.text_without_layout}",
            inst.span,
        )
    if shape.dtype.bits not in (8, 16, 32, 64):
        raise UnsupportedError(f"{inst.name}: random bits of type {shape.dtype}", inst.span)


# ---------------------------------------------------------------- factors


def _factors_of_topk(draft: FactorDraft, inst: Instruction) -> None:
    sizes = inst.operands[0].array.dims
    draft.link(range(len(sizes) - 1), sizes)


# ---------------------------------------------------------------- rows

SORT = define(
    reads="sort(a, ...), dimensions={d} orders rows along d by to_apply(x, y): x before y",
    infer=infer_sort,
    attributes=SortAttributes,
    calls=(CalledRole("to_apply"),),
    evaluate=_evaluate_sort,
    factors=dims_not_named,
)

TOPK = define(
    reads="topk(x), k=n is the n first values of every row by total order, and where they are",
    infer=infer_topk,
    attributes=TopKAttributes,
    evaluate=_evaluate_topk,
    factors=_factors_of_topk,
)

RNG = define(
    reads="rng(a, b) draws from uniform [a, b) or normal (mean a, deviation b)",
    arity=None,
    infer=infer_rng,
    shape_required=True,
    attributes=RngAttributes,
    evaluate=_evaluate_rng,
    side_effect=True,
)

RNG_BIT_GENERATOR = define(
    reads="rng-bit-generator(state) is (new state, random bits) of a counter-based generator",
    arity=None,
    infer=infer_rng_bit_generator,
    shape_required=True,
    attributes=RngBitGeneratorAttributes,
    evaluate=_evaluate_rng_bit_generator,
)
