"""Opcodes that move elements of arrays with dynamic dimensions: slices, pads, gathers, scatters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hloc.dtypes import S32
from hloc.ir.instruction import Instruction
from hloc.opt.dynamic.scope import Scope, Sizes, refuse
from hloc.shapes import TupleShape


def broadcast(scope: Scope, inst: Instruction) -> None:
    """Each dimension of the operand keeps its size."""
    places = inst.attributes.dimensions
    sizes = {places[dim]: size for dim, size in scope.sizes(inst.operands[0]).items()}
    scope.make_static(inst, sizes)


def transpose(scope: Scope, inst: Instruction) -> None:
    """The sizes are permuted like the dimensions."""
    places = inst.attributes.dimensions
    sizes = scope.sizes(inst.operands[0])
    scope.make_static(inst, {d: sizes[dim] for d, dim in enumerate(places) if dim in sizes})


def slice_(scope: Scope, inst: Instruction) -> None:
    """Resolve a slice: a full dimension keeps its size; any other is static."""
    operand = inst.operands[0]
    kept = {}
    for dim, size in scope.sizes(operand).items():
        part = inst.attributes.slice[dim]
        if (part.start, part.limit, part.stride) == (0, operand.array.dims[dim], 1):
            kept[dim] = size
    scope.make_static(inst, kept)


def dynamic_slice(scope: Scope, inst: Instruction) -> None:
    """A full dimension keeps its size; any other is static."""
    operand = inst.operands[0]
    scope.make_static(
        inst,
        {
            dim: size
            for dim, size in scope.sizes(operand).items()
            if inst.array.dims[dim] == operand.array.dims[dim]
        },
    )


def dynamic_update_slice(scope: Scope, inst: Instruction) -> None:
    """Elements outside the present update keep the old value; sizes are those of the operand."""
    operand, update, *starts = inst.operands
    inside = scope.inside(update, list(range(update.array.rank)))
    if inside is not None:  # elements outside the present update keep the old value
        there = scope.b.dynamic_slice(operand, starts, update.array.dims)
        mixed = scope.b.select(inside, update, there)
        scope.computation.set_operands(inst, [operand, mixed, *starts])
    scope.make_static(inst, scope.sizes(operand))


def pad(scope: Scope, inst: Instruction) -> None:
    """Elements outside the present size become padding; the size grows by the padding around it."""
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


def gather(scope: Scope, inst: Instruction) -> None:
    """Sizes of the indices give those of the rows, whole windows those of the operand."""
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


def scatter(scope: Scope, inst: Instruction) -> None:
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
