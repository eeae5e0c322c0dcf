"""Dynamic dimensions in the evaluator: arrays have their present size, not their bound.

An instruction with such operands is evaluated as the static instruction of the present sizes: its
shape is inferred again, and attributes that cover whole dimensions are adapted. This is independent
of the dynamic padder, which keeps bounds and masks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import Any, TypeAlias

import numpy as np

from hloc.dtypes import Array
from hloc.errors import UnsupportedError
from hloc.ir.attributes import SliceDimension
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import HostValue, ShapeRequest
from hloc.shapes import UNBOUNDED, ArrayShape, Shape, TupleShape

_CONTROL = (
    "tuple",
    "get-tuple-element",
    "while",
    "conditional",
    "call",
    "fusion",
    "get-dimension-size",
    "set-dimension-size",
    "dynamic-reshape",
    "custom-call",
    "opt-barrier",
    "add-dependency",
    "domain",
    "copy",
    "async-start",
)
"""Opcodes whose evaluation does not depend on the sizes in shapes."""


def has_present_sizes(inst: Instruction, operands: Sequence[HostValue]) -> bool:
    """True if an operand is smaller than its bound."""
    if inst.is_a(*_CONTROL):
        return False
    return any(
        _is_smaller(operand.shape, value)
        for operand, value in zip(inst.operands, operands, strict=True)
    )


def _is_smaller(shape: Shape, value: HostValue) -> bool:
    if not isinstance(shape, ArrayShape) or not shape.dims or value is None:
        return False
    return bool(value.ndim == shape.rank and value.shape != shape.dims)


def with_present_sizes(
    inst: Instruction, operands: Sequence[HostValue]
) -> tuple[Instruction, tuple[HostValue, ...]]:
    """Return `inst` rewritten for the present sizes, and its operands.

    Raises:
        UnsupportedError: the sizes of the result cannot be determined.
    """
    values = tuple(operands)
    if inst.opcode.elementwise or inst.is_a("map"):
        values = _agreed(inst, values)
    elif inst.is_a("dynamic-slice", "dynamic-update-slice", "slice", "gather"):
        values = (_at_bound_where_cut(inst, values[0]), *values[1:])
    else:
        values = _paired(inst, values)
    attributes = _attributes(inst, values)
    shapes = [_shape_of(o, v) for o, v in zip(inst.operands, values, strict=True)]
    stand_ins = tuple(
        replace(operand, shape=shape, users={})
        for operand, shape in zip(inst.operands, shapes, strict=True)
    )
    request = ShapeRequest(tuple(shapes), attributes, inst.called, _declared(inst, values))
    shape = inst.opcode.infer(request)
    return replace(inst, shape=shape, operands=stand_ins, attributes=attributes, users={}), values


def cut_to_present(inst: Instruction, value: HostValue, operands: Sequence[HostValue]) -> HostValue:
    """Return a dynamic-update-slice of an array at its bound in the operand's present size."""
    if not inst.is_a("dynamic-update-slice"):
        return value
    return value[tuple(slice(size) for size in operands[0].shape)]


def _shape_of(operand: Instruction, value: HostValue) -> Shape:
    if not isinstance(operand.shape, ArrayShape) or value is None:
        return operand.shape
    return ArrayShape(operand.shape.dtype, tuple(value.shape))


def _agreed(inst: Instruction, values: tuple[HostValue, ...]) -> tuple[HostValue, ...]:
    """Return operands of equal sizes: static ones are cut, those of size 1 repeated."""
    rank = inst.array.rank
    full = [v for v in values if v.ndim == rank]
    sizes = []
    for dim, bound in enumerate(inst.array.dims):
        present = [v.shape[dim] for v in full if v.shape[dim] not in (1, bound)]
        alone = any(v.shape[dim] == 1 != bound for v in full)
        whole = any(
            v.shape[dim] == bound and _is_dynamic(inst, i, dim)
            for i, v in enumerate(values)
            if v.ndim == rank
        )
        sizes.append(min(present) if present else (bound if whole or not alone else 1))
    cut = tuple(slice(size) for size in sizes)
    return tuple(np.broadcast_to(v[cut], sizes) if v.ndim == rank and rank else v for v in values)


def _paired(inst: Instruction, values: tuple[HostValue, ...]) -> tuple[HostValue, ...]:
    """Return operands in which paired dimensions have the smaller of both sizes."""
    found = list(values)
    for places in _pairs(inst, found):
        size = min(found[number].shape[dim] for number, dim in places)
        for number, dim in places:
            cut = tuple(slice(size if d == dim else None) for d in range(found[number].ndim))
            found[number] = found[number][cut]
    return tuple(found)


Place: TypeAlias = tuple[int, int]
"""A dimension of an operand: the operand's number and the dimension."""


def _pairs(inst: Instruction, values: Sequence[HostValue]) -> Iterator[list[Place]]:
    """Yield the pairs of operand dimensions that must have equal sizes."""
    a = inst.attributes
    if inst.is_a("dot"):
        for left, right in (
            *zip(a.lhs_contracting_dims, a.rhs_contracting_dims, strict=True),
            *zip(a.lhs_batch_dims, a.rhs_batch_dims, strict=True),
        ):
            yield [(0, left), (1, right)]
    elif inst.is_a("convolution"):
        yield [(0, a.dim_labels.input_feature), (1, a.dim_labels.kernel_input_feature)]
    elif inst.is_a("scatter"):
        yield from _scatter_pairs(inst, values)
    elif inst.is_a("concatenate", "sort", "reduce", "reduce-window"):
        arrays = [i for i, value in enumerate(values) if value.ndim]
        for dim in range(values[0].ndim):
            if not inst.is_a("concatenate") or dim not in a.dimensions:
                yield [(i, dim) for i in arrays]


def _scatter_pairs(inst: Instruction, values: Sequence[HostValue]) -> Iterator[list[Place]]:
    a, count = inst.attributes, len(values) // 2
    batch = [dim for dim in range(values[count].ndim) if dim != a.index_vector_dim]
    kept = [dim for dim in range(values[-1].ndim) if dim not in a.update_window_dims]
    for dim, place in zip(batch, kept, strict=True):
        yield [(count, dim), *((i, place) for i in range(count + 1, len(values)))]


def _is_dynamic(inst: Instruction, number: int, dim: int) -> bool:
    return inst.operands[number].array.is_dynamic(dim)


def _at_bound_where_cut(inst: Instruction, array: Array) -> Array:
    """Return the operand at its bound along dimensions that are sliced.

    Elements outside the present size are undefined; here they are zero.
    """
    bounds = inst.operands[0].array.dims
    if inst.is_a("slice"):
        whole = [s.stop - s.start == b for s, b in zip(_ranges(inst), bounds, strict=True)]
    elif inst.is_a("gather"):
        whole = [s == b for s, b in zip(inst.attributes.slice_sizes, bounds, strict=True)]
    elif inst.is_a("dynamic-slice"):
        sizes = inst.attributes.dynamic_slice_sizes
        whole = [s == b for s, b in zip(sizes, bounds, strict=True)]
    else:
        whole = [False] * len(bounds)
    room = [
        (0, 0 if all_of else bound - size)
        for all_of, bound, size in zip(whole, bounds, array.shape, strict=True)
    ]
    return np.pad(array, room)


def _ranges(inst: Instruction) -> list[slice]:
    return [slice(d.start, d.limit, d.stride) for d in inst.attributes.slice]


def _attributes(inst: Instruction, values: tuple[HostValue, ...]) -> Any:
    """Return attributes in which full dimensions have their present size."""
    a, operand = inst.attributes, inst.operands[0] if inst.operands else None
    if operand is None or not isinstance(operand.shape, ArrayShape):
        return a
    sizes, bounds = values[0].shape, operand.array.dims
    if inst.is_a("slice"):
        ranges = tuple(
            SliceDimension(d.start, size, d.stride) if d.limit == bound else d
            for d, size, bound in zip(a.slice, sizes, bounds, strict=True)
        )
        return replace(a, slice=ranges)
    if inst.is_a("gather", "dynamic-slice"):
        name = "slice_sizes" if inst.is_a("gather") else "dynamic_slice_sizes"
        given = getattr(a, name)
        found = tuple(
            size if wanted == bound else wanted
            for wanted, size, bound in zip(given, sizes, bounds, strict=True)
        )
        return replace(a, **{name: found})
    return a


def _declared(inst: Instruction, values: tuple[HostValue, ...]) -> Shape:
    """Return the declared shape with open sizes, or known ones if no rule infers them."""
    if isinstance(inst.shape, TupleShape):
        return TupleShape(tuple(_open(element) for element in inst.shape.elements))
    shape = inst.array
    if inst.is_a("broadcast"):
        sizes = list(shape.dims)
        for i, dim in enumerate(inst.attributes.dimensions):
            sizes[dim] = values[0].shape[i]
    elif inst.is_a("reshape"):
        sizes = _reshaped(inst, values[0].shape)
    elif inst.opcode.elementwise or inst.is_a("map"):
        sizes = list(next(v.shape for v in values if v.ndim == shape.rank))
    else:
        return _open(shape)
    return ArrayShape(shape.dtype, tuple(sizes))


def _open(shape: Shape) -> Shape:
    if not isinstance(shape, ArrayShape):
        return shape
    return ArrayShape(shape.dtype, (UNBOUNDED,) * shape.rank)


def _reshaped(inst: Instruction, present: tuple[int, ...]) -> list[int]:
    """Return the sizes of a reshape, group by group of neighbouring dimensions."""
    before, after = inst.operands[0].array.dims, inst.array.dims
    sizes = list(after)
    i = j = 0
    while i < len(before) and j < len(after):
        first, start = i, j
        left, right = before[i], after[j]
        i, j = i + 1, j + 1
        while left != right:
            if left < right:
                left, i = left * before[i], i + 1
            else:
                right, j = right * after[j], j + 1
        if i == len(before) or j == len(after):
            i, j = len(before), len(after)
        if present[first:i] != before[first:i]:
            _share(inst, sizes, range(start, j), prod(present[first:i]))
    return sizes


def _share(inst: Instruction, sizes: list[int], dims: range, count: int) -> None:
    """Adjust one dimension among `dims` so that they have `count` elements."""
    candidates = [dim for dim in dims if inst.array.is_dynamic(dim)]
    if inst.attributes.inferred_dimension in dims:
        candidates = [inst.attributes.inferred_dimension]
    candidates = candidates or [dim for dim in dims if sizes[dim] != 1] or list(dims)
    if len(candidates) != 1:
        raise UnsupportedError(
            f"reshape {inst.name} cannot run with dynamic sizes: it is not clear which dimension "
            "of the result changes",
            inst.span,
        )
    others = prod(sizes[dim] for dim in dims if dim != candidates[0])
    sizes[candidates[0]] = count // max(1, others)
