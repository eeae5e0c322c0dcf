"""Reductions and maps: reduce, map, scan. Windows are in `reduce_window.py`."""

from __future__ import annotations

import numpy as np

from hloc.ir.attribute_fields import attr
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
    array_operands,
    check_compatible,
    check_dims,
    check_parameters,
    require,
    scalar_of,
)
from hloc.ops.factors import same_dims
from hloc.ops.folding import (
    as_tuple,
    fold_general,
    fold_recognised,
    map_scalars,
    recognised_results,
    result_types,
)
from hloc.ops.reducers import (
    check_equal_dims,
    one_or_tuple,
    reducer_results,
    split_operands,
)
from hloc.shapes import ArrayShape, Shape, TupleShape


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceAttributes:
    dimensions: tuple[int, ...] = attr("int_list")


@dataclass(frozen=True, slots=True, kw_only=True)
class MapAttributes:
    """`dimensions` are all dimensions of the operands; None if the text left them out."""

    dimensions: tuple[int, ...] | None = attr("int_list", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanAttributes:
    dimensions: tuple[int, ...] = attr("int_list")
    num_carries: int = attr("int")
    is_reverse: bool = attr("bool", default=False)
    is_associative: bool = attr("bool", default=False, always=True)


# ---------------------------------------------------------------- shape rules


def infer_reduce(request: ShapeRequest) -> Shape:
    """Return the inputs without the reduced dimensions, with the reducer's element types."""
    inputs, inits = split_operands("reduce", request)
    dimensions = request.attributes.dimensions
    check_dims("reduce", "dimension", dimensions, inputs[0].rank)
    results = reducer_results("reduce", request.called[0], inputs, inits)
    kept = [dim for dim in range(inputs[0].rank) if dim not in dimensions]
    dims = tuple(inputs[0].dims[dim] for dim in kept)
    dynamic = tuple(inputs[0].is_dynamic(dim) for dim in kept)
    return one_or_tuple(tuple(ArrayShape(r.dtype, dims, None, dynamic) for r in results))


def infer_map(request: ShapeRequest) -> Shape:
    """Return the operands' dimensions with the element type of the mapped function."""
    shapes = array_operands("map", request)
    require(bool(shapes), "map: expected at least 1 operand, but found 0")
    check_equal_dims("map", shapes)
    rank = shapes[0].rank
    dimensions = request.attributes.dimensions
    require(
        dimensions == tuple(range(rank)) or (dimensions is None and request.declared is not None),
        f"map: dimensions must be all of {list(range(rank))}, "
        f"but are {list(dimensions) if dimensions is not None else 'left out'}",
    )
    root = check_parameters("map", request.called[0], tuple(scalar_of(shape) for shape in shapes))
    require(
        isinstance(root, ArrayShape) and root.is_scalar,
        f"map: computation {request.called[0].name} must return a scalar, "
        f"but returns {root.text_without_layout}",
    )
    assert isinstance(root, ArrayShape)
    return ArrayShape(root.dtype, shapes[0].dims, None, shapes[0].dynamic)


def infer_scan(request: ShapeRequest) -> Shape:
    """Return `(outputs..., carries...)`; each output is a step's output along the dimension."""
    shapes = array_operands("scan", request)
    attributes = request.attributes
    carries = attributes.num_carries
    require(
        0 <= carries < len(shapes),
        f"scan: num_carries {carries} leaves no inputs of {len(shapes)} operands",
    )
    require(
        len(attributes.dimensions) == 1,
        f"scan: expected one dimension, but found {list(attributes.dimensions)}",
    )
    (dim,) = attributes.dimensions
    inputs, initial = shapes[: len(shapes) - carries], shapes[len(shapes) - carries :]
    for shape in inputs:
        check_dims("scan", "dimension", (dim,), shape.rank)
        require(
            shape.dims[dim] == inputs[0].dims[dim],
            f"scan: inputs {inputs[0].text_without_layout} and {shape.text_without_layout} "
            f"differ in dimension {dim}",
        )
    steps = tuple(_without(shape, dim) for shape in inputs)
    root = check_parameters("scan", request.called[0], (*initial, *steps))
    parts = root.elements if isinstance(root, TupleShape) else (root,)
    require(
        len(parts) >= carries,
        f"scan: computation {request.called[0].name} returns {len(parts)} values, "
        f"fewer than the {carries} carries",
    )
    outputs = parts[: len(parts) - carries]
    for carry, shape in zip(parts[len(outputs) :], initial, strict=True):
        check_compatible("scan", f"a carry of {request.called[0].name}", carry, shape)
    stacked = tuple(_stacked(output, dim, inputs[0].dims[dim]) for output in outputs)
    return TupleShape((*stacked, *initial))


def _without(shape: ArrayShape, dim: int) -> ArrayShape:
    return ArrayShape(shape.dtype, shape.dims[:dim] + shape.dims[dim + 1 :])


def _stacked(shape: Shape, dim: int, size: int) -> ArrayShape:
    require(
        isinstance(shape, ArrayShape) and not shape.dtype.is_special and dim <= shape.rank,
        f"scan: output {shape.text_without_layout} cannot be stacked along dimension {dim}",
    )
    assert isinstance(shape, ArrayShape)
    return ArrayShape(shape.dtype, (*shape.dims[:dim], size, *shape.dims[dim:]))


# ---------------------------------------------------------------- evaluation


def _evaluate_reduce(inst: Instruction, operands: Operands, call: CallFunction) -> HostValue:
    count = len(operands) // 2
    dims = inst.attributes.dimensions
    reducer = inst.called[0]
    kinds = ["" if kind == "second" else kind for kind in recognised_results(reducer)]
    inputs, inits = operands[:count], operands[count:]
    types = result_types(reducer.root.shape)
    general = inits if all(kinds) else fold_general(call, reducer, inputs, inits, dims)
    results = tuple(
        fold_recognised(kind, x, init, dims, dtype) if kind else result
        for kind, x, init, dtype, result in zip(kinds, inputs, inits, types, general, strict=True)
    )
    return results if isinstance(inst.shape, TupleShape) else results[0]


def _evaluate_map(inst: Instruction, operands: Operands, call: CallFunction) -> HostValue:
    # The result may already hold more dimensions when the map itself runs on whole arrays.
    dims = np.broadcast_shapes(*(operand.shape for operand in operands))
    return map_scalars(call, inst.called[0], operands, dims)[0]


def _evaluate_scan(inst: Instruction, operands: Operands, call: CallFunction) -> HostValue:
    """Call the computation per step: `(carries..., slices...)` to `(outputs..., carries...)`."""
    attributes = inst.attributes
    (dim,) = attributes.dimensions
    split = len(operands) - attributes.num_carries
    inputs, carries = operands[:split], tuple(operands[split:])
    assert isinstance(inst.shape, TupleShape)
    shapes = inst.shape.elements[: len(inst.shape.elements) - attributes.num_carries]
    outputs = [
        np.zeros(shape.dims, shape.dtype.numpy) for shape in shapes if isinstance(shape, ArrayShape)
    ]
    steps = range(inputs[0].shape[dim])
    for step in reversed(steps) if attributes.is_reverse else steps:
        slices = (np.take(array, step, axis=dim) for array in inputs)
        results = as_tuple(call(inst.called[0], *carries, *slices))
        for output, result in zip(outputs, results, strict=False):
            np.moveaxis(output, dim, 0)[step] = result
        carries = tuple(results[len(outputs) :])
    return (*outputs, *carries)


# ---------------------------------------------------------------- factors


def _factors_of_reduce(draft: FactorDraft, inst: Instruction) -> None:
    reduced = inst.attributes.dimensions
    count = len(inst.operands) // 2
    sizes = inst.operands[0].array.dims
    kept = 0
    for dim, size in enumerate(sizes):
        factor = draft.factor(size)
        for operand in draft.operands[:count]:
            operand[dim] = factor
        if dim in reduced:
            draft.reductions.add(factor)
        else:
            for result in draft.results:
                result[kept] = factor
            kept += 1


# ---------------------------------------------------------------- rows

REDUCE = define(
    reads="reduce(x, init), dimensions=d folds x over d with to_apply, starting from init",
    arity=None,
    infer=infer_reduce,
    attributes=ReduceAttributes,
    calls=(CalledRole("to_apply"),),
    evaluate=_evaluate_reduce,
    factors=_factors_of_reduce,
    flops=1,
)

MAP = define(
    reads="map(a, b, ...) is to_apply on every element",
    infer=infer_map,
    attributes=MapAttributes,
    calls=(CalledRole("to_apply"),),
    evaluate=_evaluate_map,
    factors=same_dims,
    flops=1,
)

SCAN = define(
    reads="scan(x, c) runs to_apply(c, x[i]) -> (output[i], c) along one dimension",
    arity=None,
    infer=infer_scan,
    attributes=ScanAttributes,
    calls=(CalledRole("to_apply"),),
    evaluate=_evaluate_scan,
    flops=1,
)
