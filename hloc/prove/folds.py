"""reduce and dot on arrays of terms: sums and other folds of few elements, unrolled.

Sums and products of floats may be evaluated in any order (docs/numerics.md): they are folds
with sorted operands. A single element, or a single product, is one operation as elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from hloc.ir.instruction import Instruction
from hloc.ops.folding import OF_PRED, recognised_results
from hloc.prove.terms import Special, Terms, Value, array_of
from hloc.shapes import TupleShape

Operands = tuple[Value, ...]
Call = Callable[..., Value]


def reduce(terms: Terms, inst: Instruction, operands: Operands, call: Call) -> Value:
    """Fold the reduced dimensions in row-major order, the init first."""
    count = len(operands) // 2
    reducer, reduced = inst.called[0], inst.attributes.dimensions
    inputs = [_last(array, reduced) for array in operands[:count]]
    inits = [init[()] for init in operands[count:]]
    dims = tuple(n for dim, n in enumerate(operands[0].shape) if dim not in reduced)
    kinds = recognised_results(reducer)
    rows = list(zip(*inputs, strict=True))
    if all(kind not in ("", "second") for kind in kinds):
        results = [
            [_combined(terms, kind, [init, *row[i]]) for row in rows]
            for i, (kind, init) in enumerate(zip(kinds, inits, strict=True))
        ]
    else:
        folded = [_stepped(call, reducer, inits, row) for row in rows]
        results = [[states[i] for states in folded] for i in range(count)]
    arrays = tuple(array_of(column, dims) for column in results)
    return arrays if isinstance(inst.shape, TupleShape) else arrays[0]


def _last(array: Value, dims: tuple[int, ...]) -> Value:
    """Return `array` as rows: each has the elements that are folded into one result."""
    kept = [dim for dim in range(array.ndim) if dim not in dims]
    size = prod(array.shape[dim] for dim in dims)
    rows = prod(array.shape[dim] for dim in kept)
    return array.transpose([*kept, *sorted(dims)]).reshape(rows, size)


def _combined(terms: Terms, kind: str, args: list[Any]) -> Any:
    dtype = args[0].dtype
    return terms.fold(OF_PRED.get(kind, kind) if dtype.is_pred else kind, dtype, args)


def _stepped(call: Call, reducer: Any, inits: list[Any], row: Any) -> list[Any]:
    state = [array_of([init], ()) for init in inits]
    for elements in zip(*row, strict=True):
        result = call(reducer, *state, *(array_of([element], ()) for element in elements))
        state = list(result) if isinstance(result, tuple) else [result]
    return [array[()] for array in state]


def dot(terms: Terms, inst: Instruction, operands: Operands, _call: Call) -> Value:
    """Sum the products over the contracted dimensions; an empty sum is 0."""
    a, dtype = inst.attributes, inst.array.dtype
    lhs = _grouped(operands[0], a.lhs_batch_dims, a.lhs_contracting_dims)
    rhs = _grouped(operands[1], a.rhs_batch_dims, a.rhs_contracting_dims)
    results = [
        _sum_of_products(terms, dtype, left, right)
        for left_batch, right_batch in zip(lhs, rhs, strict=True)
        for left in left_batch
        for right in right_batch
    ]
    return array_of(results, inst.array.dims)


def _grouped(array: Value, batch: tuple[int, ...], contracted: tuple[int, ...]) -> Value:
    """Return an operand as (batch, free, contracted)."""
    free = [dim for dim in range(array.ndim) if dim not in (*batch, *contracted)]
    sizes = [prod(array.shape[dim] for dim in dims) for dims in (batch, free, contracted)]
    return np.transpose(array, [*batch, *free, *contracted]).reshape(sizes)


def _sum_of_products(terms: Terms, dtype: Any, left: Any, right: Any) -> Any:
    products = [
        terms.apply(
            "multiply",
            dtype,
            (terms.apply("convert", dtype, (x,)), terms.apply("convert", dtype, (y,))),
        )
        for x, y in zip(left, right, strict=True)
    ]
    if not products:
        return terms.literal(0, dtype)
    if dtype.is_float and len(products) > 1:
        # Not rounded one by one: the sum of exactly these products, in any order.
        return terms.fold("add", dtype, [*products, terms.literal(0, dtype)])
    return _combined(terms, "add", products)


FOLDS: dict[str, Special] = {"reduce": reduce, "dot": dot}
