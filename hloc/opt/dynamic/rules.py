"""Dynamic dimensions per opcode: sizes of the result, and masks.

A rule resolves one instruction whose operands are resolved. Source of semantics: XLA's
dynamic dimension inference and dynamic padder, checked by experiment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from hloc.dtypes import S32
from hloc.errors import printable
from hloc.ir.instruction import Instruction
from hloc.ops.contraction import free_dims
from hloc.ops.custom_call_targets import is_call_of, target_of
from hloc.ops.folding import identity_of, recognised_reducer
from hloc.opt.dynamic.reorder import concatenate, reverse, sort
from hloc.opt.dynamic.reshape import dynamic_reshape, reshape
from hloc.opt.dynamic.scope import Scope, Sizes, refuse, same_size
from hloc.shapes import TupleShape

Rule: TypeAlias = Callable[[Scope, Instruction], None]


def rule_for(inst: Instruction) -> Rule:
    """Return the rule of an opcode; opcodes without one are refused if a size is dynamic."""
    if inst.opcode.name in _RULES:
        return _RULES[inst.opcode.name]
    return _elementwise if inst.opcode.elementwise or inst.is_a("map") else _batch_only


# ---------------------------------------------------------------- element by element


def _elementwise(scope: Scope, inst: Instruction) -> None:
    """Give each dimension the size that its operands have there.

    Where two operands may differ, an operand of size 1 at run time is repeated to the other's
    size, as XLA does for implicit broadcasts of dynamic dimensions.
    """
    rank = inst.array.rank
    operands = list(inst.operands)
    sizes: dict[int, Instruction] = {}
    for dim in range(rank):
        given = {
            i: scope.sizes(operand)[dim]
            for i, operand in enumerate(operands)
            if operand.array.rank == rank and dim in scope.sizes(operand)
        }
        if not given:
            continue
        sizes[dim], *others = given.values()
        if not all(same_size(sizes[dim], other) for other in others):
            for i, size in given.items():
                operands[i] = _repeated(scope, operands[i], dim, size)
                sizes[dim] = _common(scope, sizes[dim], size)
    scope.computation.set_operands(inst, operands)
    scope.make_static(inst, sizes)


def _common(scope: Scope, x: Instruction, y: Instruction) -> Instruction:
    """Return the size of the result of operands of sizes `x` and `y`; size 1 fits any."""
    if same_size(x, y):
        return x
    b, one = scope.b, scope.number(1)
    smaller = b.select(b.compare(y, one, "EQ"), x, b.minimum(x, y))
    return b.select(b.compare(x, one, "EQ"), y, smaller)


def _repeated(scope: Scope, inst: Instruction, dim: int, size: Instruction) -> Instruction:
    """Return `inst` with its first element along `dim` everywhere if `size` is 1."""
    b, dims = scope.b, inst.array.dims
    limits = [1 if d == dim else n for d, n in enumerate(dims)]
    first = b.reshape(
        b.slice(inst, [0] * len(dims), limits), [n for d, n in enumerate(dims) if d != dim]
    )
    wide = b.broadcast(first, dims, [d for d in range(len(dims)) if d != dim])
    alone = b.broadcast(b.compare(size, scope.number(1), "EQ"), dims)
    repeated = b.select(alone, wide, inst)
    scope.leaves[repeated] = scope.leaves.get(inst, {})
    return repeated


def _like_operand(scope: Scope, inst: Instruction) -> None:
    """Give the result the sizes of operand 0, leaf by leaf."""
    scope.make_leaves_static(inst, dict(scope.leaves.get(inst.operands[0], {})))


def _like_operands(scope: Scope, inst: Instruction) -> None:
    """Resolve a result that is operand 0, or a tuple of all operands."""
    if len(inst.operands) == 1 and not isinstance(inst.shape, TupleShape):
        return _like_operand(scope, inst)
    found = {
        (i, *index): sizes
        for i, operand in enumerate(inst.operands)
        for index, sizes in scope.leaves.get(operand, {}).items()
    }
    return scope.make_leaves_static(inst, found)


def _get_tuple_element(scope: Scope, inst: Instruction) -> None:
    index = inst.attributes.index
    found = scope.leaves.get(inst.operands[0], {})
    scope.make_leaves_static(
        inst, {key[1:]: sizes for key, sizes in found.items() if key[0] == index}
    )


# ---------------------------------------------------------------- sizes as values


def _get_dimension_size(scope: Scope, inst: Instruction) -> None:
    (dim,) = inst.attributes.dimensions
    scope.become(inst, scope.size(inst.operands[0], dim))


def _set_dimension_size(scope: Scope, inst: Instruction) -> None:
    operand, size = inst.operands
    (dim,) = inst.attributes.dimensions
    sizes = {d: s for d, s in scope.sizes(operand).items() if d != dim}
    if not same_size(size, scope.number(operand.array.dims[dim])):
        sizes[dim] = _clamped(scope, size, operand.array.dims[dim])
    scope.become(inst, scope.b.copy(operand), sizes)


def _clamped(scope: Scope, size: Instruction, bound: int) -> Instruction:
    """Return `size` clamped to its bound."""
    if size.is_a("constant") and 0 <= int(size.attributes.literal.array) <= bound:
        return size
    return scope.b.clamp(scope.number(0), size, scope.number(bound))


def _custom_call(scope: Scope, inst: Instruction) -> None:
    """Resolve the custom calls that convert between static and dynamic shapes; refuse unknown ones.

    `SliceToDynamic(array, sizes...)` is the array with these sizes; `PadToStatic(array)` is a
    tuple of the array with zeros outside, and its sizes. Targets that return an operand keep its
    sizes.
    """
    target = inst.attributes.custom_call_target
    if target in ("SliceToDynamic", "PadToStatic") and not is_call_of(inst, target):
        refuse(inst, f'custom-call target "{printable(target)}" is not known with these shapes')
    if target == "SliceToDynamic":
        array, *given = inst.operands
        sizes = {
            dim: _clamped(scope, size, array.array.dims[dim])
            for dim, size in enumerate(given)
            if not same_size(size, scope.number(array.array.dims[dim]))
        }
        scope.become(inst, scope.b.copy(array), sizes)
    elif target == "PadToStatic" and not inst.operands[0].is_a("parameter"):
        (array,) = inst.operands
        parts = [scope.size(array, dim) for dim in range(array.array.rank)]
        padded = scope.masked(array, scope.zero(array), list(range(array.array.rank)))
        scope.become(inst, scope.b.tuple([padded, *parts]))
    elif any(scope.is_dynamic(operand) for operand in inst.operands):
        known = target_of(inst)
        if known is None or not known.is_identity:
            refuse(inst, f'custom-call target "{printable(target)}" has no rule for them')
        _like_operands(scope, inst)


# ---------------------------------------------------------------- moving elements


def _broadcast(scope: Scope, inst: Instruction) -> None:
    places = inst.attributes.dimensions
    sizes = {places[dim]: size for dim, size in scope.sizes(inst.operands[0]).items()}
    scope.make_static(inst, sizes)


def _transpose(scope: Scope, inst: Instruction) -> None:
    places = inst.attributes.dimensions
    sizes = scope.sizes(inst.operands[0])
    scope.make_static(inst, {d: sizes[dim] for d, dim in enumerate(places) if dim in sizes})


def _slice(scope: Scope, inst: Instruction) -> None:
    """Resolve a slice: a full dimension keeps its size; any other is static."""
    operand = inst.operands[0]
    kept = {}
    for dim, size in scope.sizes(operand).items():
        part = inst.attributes.slice[dim]
        if (part.start, part.limit, part.stride) == (0, operand.array.dims[dim], 1):
            kept[dim] = size
    scope.make_static(inst, kept)


def _dynamic_slice(scope: Scope, inst: Instruction) -> None:
    operand = inst.operands[0]
    scope.make_static(
        inst,
        {
            dim: size
            for dim, size in scope.sizes(operand).items()
            if inst.array.dims[dim] == operand.array.dims[dim]
        },
    )


def _dynamic_update_slice(scope: Scope, inst: Instruction) -> None:
    operand, update, *starts = inst.operands
    inside = scope.inside(update, list(range(update.array.rank)))
    if inside is not None:  # elements outside the present update keep the old value
        there = scope.b.dynamic_slice(operand, starts, update.array.dims)
        mixed = scope.b.select(inside, update, there)
        scope.computation.set_operands(inst, [operand, mixed, *starts])
    scope.make_static(inst, scope.sizes(operand))


def _pad(scope: Scope, inst: Instruction) -> None:
    operand, value = inst.operands
    b = scope.b
    sizes = {}
    for dim, size in scope.sizes(operand).items():
        part = inst.attributes.padding[dim]
        grown = size
        if part.interior:
            zero = scope.number(0)
            gaps = b.maximum(b.subtract(size, scope.number(1)), zero)
            grown = b.add(grown, b.multiply(gaps, scope.number(part.interior)))
        if part.low + part.high:
            grown = b.add(grown, scope.number(part.low + part.high))
        sizes[dim] = b.maximum(grown, scope.number(0)) if part.low + part.high < 0 else grown
    masked = scope.masked(operand, value, list(sizes))
    scope.computation.set_operands(inst, [masked, value])
    scope.make_static(inst, sizes)


def _gather(scope: Scope, inst: Instruction) -> None:
    a, (operand, indices) = inst.attributes, inst.operands
    sizes = dict(_renamed(scope.sizes(indices), _scatter_places(inst, indices, a.offset_dims)))
    gone = {*a.collapsed_slice_dims, *a.operand_batching_dims}
    window = [dim for dim in range(operand.array.rank) if dim not in gone]
    for place, dim in zip(a.offset_dims, window, strict=True):
        size = scope.sizes(operand).get(dim)
        if size is not None and a.slice_sizes[dim] == operand.array.dims[dim]:
            sizes[place] = size
    scope.make_static(inst, sizes)


def _scatter_places(
    inst: Instruction, indices: Instruction, window_dims: Sequence[int]
) -> dict[int, int]:
    """Return, for each dimension of the indices, the dimension of gathered or scattered values."""
    vector = inst.attributes.index_vector_dim
    batch = [dim for dim in range(indices.array.rank) if dim != vector]
    rank = len(batch) + len(window_dims)
    places = [dim for dim in range(rank) if dim not in window_dims]
    return dict(zip(batch, places, strict=True))


def _renamed(sizes: Sizes, places: dict[int, int]) -> Iterable[tuple[int, Instruction]]:
    return ((places[dim], size) for dim, size in sizes.items() if dim in places)


def _scatter(scope: Scope, inst: Instruction) -> None:
    """Resolve a scatter: indices outside the present size are made invalid, and skipped."""
    a, count = inst.attributes, len(inst.operands) // 2
    indices, updates = inst.operands[count], inst.operands[count + 1 :]
    places = _scatter_places(inst, indices, a.update_window_dims)
    sizes = {dim: size for dim, size in scope.sizes(indices).items() if dim in places}
    for update in updates:
        for place, size in scope.sizes(update).items():
            if place in a.update_window_dims:
                _check_window(scope, inst, place)
                continue
            dim = next(d for d, p in places.items() if p == place)
            sizes.setdefault(dim, size)
    scope.leaves[indices] = {(): {**scope.sizes(indices), **sizes}}
    masked = _masked_indices(scope, indices, list(sizes))
    scope.computation.set_operands(inst, [*inst.operands[:count], masked, *updates])
    _like_operands_of(scope, inst, inst.operands[:count])


def _masked_indices(scope: Scope, indices: Instruction, dims: list[int]) -> Instruction:
    if not dims:
        return indices
    b, sizes = scope.b, scope.sizes(indices)
    if indices.array.dtype.is_unsigned:
        wide = b.convert(indices, S32)
        scope.leaves[wide] = {(): sizes}
        indices = wide
    nowhere = b.constant(-1, indices.array.dtype)
    return scope.masked(indices, nowhere, dims)


def _check_window(scope: Scope, inst: Instruction, place: int) -> None:
    """Require that a dynamic window dimension of the updates is dynamic in the operand too."""
    a, operand = inst.attributes, inst.operands[0]
    gone = {*a.inserted_window_dims, *a.input_batching_dims}
    window = [dim for dim in range(operand.array.rank) if dim not in gone]
    dim = window[a.update_window_dims.index(place)]
    if dim not in scope.sizes(operand):
        refuse(inst, f"dimension {place} of the updates is part of the window")


def _like_operands_of(scope: Scope, inst: Instruction, operands: Sequence[Instruction]) -> None:
    """Give each leaf of the result the sizes of one of `operands`."""
    if not isinstance(inst.shape, TupleShape):
        return scope.make_static(inst, scope.sizes(operands[0]))
    return scope.make_leaves_static(
        inst, {(i,): scope.sizes(operand) for i, operand in enumerate(operands)}
    )


# ---------------------------------------------------------------- sums


def _reduce(scope: Scope, inst: Instruction) -> None:
    count, dims = len(inst.operands) // 2, list(inst.attributes.dimensions)
    masked = _masked_inputs(scope, inst, count, dims)
    kept = [dim for dim in range(masked[0].array.rank) if dim not in dims]
    sizes = _sizes_of_any(scope, inst.operands[:count])
    scope.computation.set_operands(inst, [*masked, *inst.operands[count:]])
    found = {kept.index(dim): size for dim, size in sizes.items() if dim in kept}
    scope.make_all_static(inst, found)


def _masked_inputs(
    scope: Scope, inst: Instruction, count: int, dims: list[int]
) -> list[Instruction]:
    """Return the inputs of a reduction, masked along `dims` by the neutral element."""
    sizes = _sizes_of_any(scope, inst.operands[:count])
    masked = []
    for operand, init in zip(inst.operands[:count], inst.operands[count:], strict=True):
        scope.leaves[operand] = {**scope.leaves.get(operand, {}), (): sizes}
        masked.append(scope.masked(operand, _neutral(scope, inst, init, operand), dims))
    return masked


def _neutral(
    scope: Scope, inst: Instruction, init: Instruction, operand: Instruction
) -> Instruction:
    """Return the neutral element of the reducer: by contract, the init value."""
    kind = recognised_reducer(inst.called[0])
    dtype = operand.array.dtype
    if kind and kind != "second":
        return scope.b.constant(np.asarray(identity_of(kind, dtype.numpy)), dtype)
    return scope.b.convert(init, dtype)


def _sizes_of_any(scope: Scope, operands: Sequence[Instruction]) -> dict[int, Instruction]:
    sizes: dict[int, Instruction] = {}
    for operand in operands:
        for dim, size in scope.sizes(operand).items():
            sizes.setdefault(dim, size)
    return sizes


def _reduce_window(scope: Scope, inst: Instruction) -> None:
    count = len(inst.operands) // 2
    sizes = _sizes_of_any(scope, inst.operands[:count])
    windows = inst.attributes.window.dimensions
    found = {dim: _windows(scope, size, windows[dim]) for dim, size in sizes.items()}
    masked = _masked_inputs(scope, inst, count, list(sizes))
    scope.computation.set_operands(inst, [*masked, *inst.operands[count:]])
    scope.make_all_static(inst, found)


def _windows(scope: Scope, size: Instruction, d: Any) -> Instruction:
    """Return how many windows fit on `size` elements."""
    b = scope.b
    extent = size
    if d.base_dilation > 1:
        last = b.maximum(b.subtract(size, scope.number(1)), scope.number(0))
        some = b.minimum(size, scope.number(1))
        extent = b.add(b.multiply(last, scope.number(d.base_dilation)), some)
    taken = (d.size - 1) * d.window_dilation + 1 - d.pad_low - d.pad_high
    if taken == d.stride == 1:
        return extent
    left = b.add(extent, scope.number(d.stride - taken))
    count = left if d.stride == 1 else b.divide(left, scope.number(d.stride))
    return b.maximum(count, scope.number(0))


def _dot(scope: Scope, inst: Instruction) -> None:
    """Mask the contracted dimensions of both sides; batch and free dimensions keep their sizes."""
    a = inst.attributes
    lhs, rhs = inst.operands
    pairs = list(zip(a.lhs_contracting_dims, a.rhs_contracting_dims, strict=True))
    lhs_sizes, rhs_sizes = dict(scope.sizes(lhs)), dict(scope.sizes(rhs))
    for left, right in pairs:  # both sides are masked: zero times infinity is NaN
        size = lhs_sizes.get(left, rhs_sizes.get(right))
        if size is not None:
            lhs_sizes[left] = rhs_sizes[right] = size
    scope.leaves[lhs] = {(): lhs_sizes}
    if rhs is not lhs:
        scope.leaves[rhs] = {(): rhs_sizes}
    left_dims, right_dims = [p[0] for p in pairs], [p[1] for p in pairs]
    operands = [
        scope.masked(lhs, scope.zero(lhs), left_dims),
        scope.masked(rhs, scope.zero(rhs), right_dims),
    ]
    scope.computation.set_operands(inst, operands)
    free_left = free_dims(lhs.array.rank, a.lhs_batch_dims, a.lhs_contracting_dims)
    free_right = free_dims(rhs.array.rank, a.rhs_batch_dims, a.rhs_contracting_dims)
    found = [
        lhs_sizes.get(x, rhs_sizes.get(y))
        for x, y in zip(a.lhs_batch_dims, a.rhs_batch_dims, strict=True)
    ]
    found += [lhs_sizes.get(dim) for dim in free_left]
    found += [rhs_sizes.get(dim) for dim in free_right]
    scope.make_static(inst, {dim: size for dim, size in enumerate(found) if size is not None})


def _convolution(scope: Scope, inst: Instruction) -> None:
    """Mask features and spatial dimensions of the input, and the input features of the kernel.

    Refused where a dynamic size would change the window or the groups.
    """
    if len(inst.operands) != 2:
        refuse(inst, "an operand is sparse")
    a, (lhs, rhs) = inst.attributes, inst.operands
    d = a.dim_labels
    lhs_sizes, rhs_sizes = scope.sizes(lhs), scope.sizes(rhs)
    if any(dim in rhs_sizes for dim in d.kernel_spatial):
        refuse(inst, "the size of the kernel is part of the window")
    if a.feature_group_count > 1 and d.input_feature in lhs_sizes:
        refuse(inst, "features are grouped")
    if a.batch_group_count > 1 and d.input_batch in lhs_sizes:
        refuse(inst, "batches are grouped")
    found = {}
    if d.input_batch in lhs_sizes:
        found[d.output_batch] = lhs_sizes[d.input_batch]
    if d.kernel_output_feature in rhs_sizes:
        found[d.output_feature] = rhs_sizes[d.kernel_output_feature]
    windows = () if a.window is None else a.window.dimensions
    for place, dim, window in zip(d.output_spatial, d.input_spatial, windows, strict=True):
        if dim in lhs_sizes:
            found[place] = _windows(scope, lhs_sizes[dim], window)
    feature = lhs_sizes.get(d.input_feature, rhs_sizes.get(d.kernel_input_feature))
    if feature is not None:
        lhs_sizes = {**lhs_sizes, d.input_feature: feature}
        scope.leaves[rhs] = {(): {**rhs_sizes, d.kernel_input_feature: feature}}
    scope.leaves[lhs] = {(): lhs_sizes}
    counted = [d.input_feature, *d.input_spatial]
    operands = [
        scope.masked(lhs, scope.zero(lhs), counted),
        scope.masked(rhs, scope.zero(rhs), [d.kernel_input_feature]),
    ]
    scope.computation.set_operands(inst, operands)
    scope.make_static(inst, found)


def _batch_only(scope: Scope, inst: Instruction) -> None:
    """Resolve opcodes with leading batch dimensions: only these may be dynamic."""
    used = _USED_DIMS.get(inst.opcode.name)
    sizes = _sizes_of_any(scope, inst.operands)
    if not sizes:
        for operand in inst.operands:
            if scope.is_dynamic(operand):
                refuse(inst, "the opcode has no rule for them")
        scope.make_leaves_static(inst, {})
        return
    rank = inst.operands[0].array.rank
    first = rank if used is None else rank - used(inst)
    if used is None or any(dim >= first for dim in sizes):
        refuse(inst, "the opcode has no rule for them")
    scope.make_all_static(inst, sizes)


_USED_DIMS: dict[str, Callable[[Instruction], int]] = {
    "fft": lambda inst: len(inst.attributes.fft_length),
    "cholesky": lambda inst: 2,
    "triangular-solve": lambda inst: 2,
    "topk": lambda inst: 1,
}

_RULES: dict[str, Rule] = {
    "copy": _like_operand,
    "opt-barrier": _like_operand,
    "add-dependency": _like_operand,
    "domain": _like_operand,
    "all-reduce": _like_operands,
    "tuple": _like_operands,
    "get-tuple-element": _get_tuple_element,
    "get-dimension-size": _get_dimension_size,
    "set-dimension-size": _set_dimension_size,
    "custom-call": _custom_call,
    "broadcast": _broadcast,
    "transpose": _transpose,
    "reshape": reshape,
    "dynamic-reshape": dynamic_reshape,
    "slice": _slice,
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "pad": _pad,
    "concatenate": concatenate,
    "reverse": reverse,
    "sort": sort,
    "gather": _gather,
    "scatter": _scatter,
    "reduce": _reduce,
    "reduce-window": _reduce_window,
    "dot": _dot,
    "convolution": _convolution,
}
