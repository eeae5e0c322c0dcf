"""Boundaries in a result: indices at which its elements start to come from another operand.

A roll is a concatenation of two slices, a stencil reads a padded array. A loop over all positions
would test each element; loops from boundary to boundary need no tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import pairwise
from typing import TypeAlias

from hloc.codegen.builder.index import loop_order, reshape_groups
from hloc.codegen.elements.rotation import rotation_of
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.shapes import ArrayShape

Box: TypeAlias = tuple[range, ...]
"""Part of a result: a range of indices per dimension."""

Place: TypeAlias = tuple[tuple[int, int] | None, ...]
"""Where a member is read: per dimension, that of the result that runs along it, and the distance.

Position p of the result is position p + distance of the member. None: no such dimension is known.
"""

_MOST = 8
"""A dimension with more boundaries has loops for its longest stretch and for what is around it."""

_SHORTEST = 4
"""Fewest elements of a stretch of the fastest dimension, on average."""

_MOST_CODE, _MOST_FOR_SHORT_ROWS = 150, 64
"""Most operations in all copies of a kernel's body together."""

_LONG_ROW = 64
"""Fewest elements of the fastest dimension for which other dimensions may be split as often."""

_MOSTLY_APART = 1.5
"""Dimensions that are split first let the code grow by less than this factor.

So do arrays that were stacked: each part computes one of them.
"""


@dataclass(frozen=True, slots=True)
class _Body:
    """What is computed in a box.

    Attributes:
        operations: how many.
        edges: per dimension, the positions at which its elements start to come from elsewhere.
    """

    operations: int
    edges: dict[int, list[int]]


def boundaries(inst: Instruction, dim: int) -> tuple[int, ...]:
    """Return the boundaries in dimension `dim` of the result of `inst`, in order; () if too many.

    Several results of a fusion must have equal dimensions. An instruction with several results,
    such as a variadic reduce-window, has no boundaries.
    """
    whole = _whole(inst)
    edges = () if whole is None else tuple(_body(inst, whole).edges.get(dim, ()))
    return edges if len(edges) <= _MOST else ()


def boxes(inst: Instruction, order: Sequence[int]) -> list[Box]:
    """Return parts that make up the result, split at the boundaries in the dimensions of `order`.

    The dimensions are given slowest first. All code together stays small: where there are too many
    boundaries, the longest stretch along a dimension is split off, or nothing. The fastest
    dimension matters most: a test in its loop prevents vectorisation.
    """
    whole = _whole(inst)
    if whole is None:
        return []
    body = cache(partial(_body, inst))
    edges = dict(body(whole).edges)
    if not order or _SHORTEST * len(edges.get(order[-1], ())) > len(whole[order[-1]]):
        return [whole]

    def grows(dim: int) -> bool:
        parts = _split(whole, dim, edges[dim])
        return _code(map(body, parts)) > _MOSTLY_APART * body(whole).operations

    def cut(found: list[Box], dim: int) -> list[Box]:
        is_long = dim == order[-1] or len(whole[order[-1]]) >= _LONG_ROW
        most = _MOST_CODE if is_long else _MOST_FOR_SHORT_ROWS
        for choose in (_all, _around_longest):
            parts = [
                part
                for box in found
                for part in _split(box, dim, choose(box[dim], body(box).edges.get(dim, [])))
            ]
            if _code(map(body, parts)) <= most:
                return parts
        return found

    found, dims = [whole], [dim for dim in reversed(order) if dim in edges]
    for dim in sorted(dims, key=grows) if len(dims) > 1 else dims:
        parts = cut(found, dim)
        if parts == found and dim == order[-1]:
            break
        found = parts
    return found


def _code(bodies: Iterable[_Body]) -> int:
    return sum(body.operations for body in bodies)


def _all(whole: range, edges: list[int]) -> list[int]:
    """Return all edges, or those around the longest stretch if there are too many."""
    return edges if len(edges) <= _MOST else _around_longest(whole, edges)


def _around_longest(whole: range, edges: list[int]) -> list[int]:
    """Return the edges around the longest stretch, none if that is less than half of all."""
    longest = max(pairwise((whole.start, *edges, whole.stop)), key=lambda ends: ends[1] - ends[0])
    is_most = 2 * (longest[1] - longest[0]) >= len(whole)
    return [edge for edge in edges if edge in longest] if is_most else []


def _split(box: Box, dim: int, edges: Sequence[int]) -> list[Box]:
    ends = pairwise((box[dim].start, *edges, box[dim].stop))
    return [(*box[:dim], range(*between), *box[dim + 1 :]) for between in ends]


# ---------------------------------------------------------------- what a box reads


def _results(inst: Instruction) -> list[Instruction]:
    root = inst.called[0].root if inst.is_a("fusion") else inst
    results = root.operands if root.is_a("tuple") else (root,)
    return [leaf for leaf in results if isinstance(leaf.shape, ArrayShape)]


def _whole(inst: Instruction) -> Box | None:
    """Return the box of all elements; None if no result is an array."""
    results = _results(inst)
    return tuple(map(range, results[0].array.dims)) if results else None


def _body(inst: Instruction, box: Box) -> _Body:
    """Return what is computed in `box`."""
    place: Place = tuple((dim, 0) for dim in range(len(box)))
    order = loop_order(_results(inst)[0].array)
    pending = [(leaf, place) for leaf in _results(inst)]
    seen = set(pending)
    edges: dict[int, set[int]] = {}
    operations = 0
    while pending:
        member, place = pending.pop()
        operations += member.opcode.elemental is not None or member.is_a("concatenate", "pad")
        rotated = _rotated(member, place, order[-1]) if order else None
        for dim, edge in () if rotated else _edges(member):
            along = place[dim]
            if along is not None and edge - along[1] in box[along[0]][1:]:
                edges.setdefault(along[0], set()).add(edge - along[1])
        for source in [rotated] if rotated else _sources(member, place, box):
            if source not in seen:
                seen.add(source)
                pending.append(source)
    return _Body(operations, {dim: sorted(found) for dim, found in edges.items()})


def _edges(inst: Instruction) -> Iterator[tuple[int, int]]:
    """Yield dimensions and positions along them at which `inst` starts to read another operand."""
    if inst.is_a("pad"):
        for dim, padding in enumerate(inst.attributes.padding):
            if not padding.interior:
                yield dim, padding.low
                yield dim, padding.low + inst.operands[0].array.dims[dim]
    elif inst.is_a("concatenate"):
        (dim,) = inst.attributes.dimensions
        yield from ((dim, start) for _, start in _pieces(inst, dim))


def _pieces(inst: Instruction, dim: int) -> Iterator[tuple[Instruction, int]]:
    """Yield the operands of a concatenation along `dim`, and where they begin."""
    start = 0
    for operand in inst.operands:
        yield operand, start
        start += operand.array.dims[dim]


def _sources(inst: Instruction, place: Place, box: Box) -> Iterator[tuple[Instruction, Place]]:
    """Yield the operands that `inst`, itself read at `place`, reads in `box`, and where."""
    if inst.opcode.elemental is not None or inst.is_a("copy"):
        # A scalar predicate of a select, or what a bitcast splits, has other dimensions.
        for operand in inst.operands:
            rank = operand.array.rank
            yield operand, place if rank == len(place) else (None,) * rank
    elif inst.is_a("concatenate"):
        (dim,) = inst.attributes.dimensions
        for operand, start in _pieces(inst, dim):
            at = _moved(place, dim, -start)
            if _meets(operand, at, box):
                yield operand, at
    elif inst.is_a("pad"):
        at = place
        for dim, padding in enumerate(inst.attributes.padding):
            at = _moved(at, dim, None if padding.interior else -padding.low)
        if _meets(inst.operands[0], at, box):
            yield inst.operands[0], at
    elif inst.is_a("slice"):
        at = place
        for dim, bounds in enumerate(inst.attributes.slice):
            at = _moved(at, dim, bounds.start if bounds.stride == 1 else None)
        yield inst.operands[0], at
    else:
        yield from _rearranged(inst, place)


def _rotated(inst: Instruction, place: Place, fastest: int) -> tuple[Instruction, Place] | None:
    """Return what `inst` rotates, and where it is read; None if it rotates the fastest dimension.

    A position along a slower dimension is chosen without a test in the fastest loop.
    """
    rotation = rotation_of(inst)
    if rotation is None:
        return None
    along = place[rotation.dim]
    if along is not None and along[0] == fastest:
        return None
    for dim, start in enumerate(rotation.others):
        place = _moved(place, dim, None if dim == rotation.dim else start)
    return rotation.operand, place


def _rearranged(inst: Instruction, place: Place) -> Iterator[tuple[Instruction, Place]]:
    """Yield the operand of what moves dimensions, and where it is read."""
    if inst.is_a("transpose"):
        pairs = list(enumerate(inst.attributes.dimensions))
    elif inst.is_a("reverse"):
        pairs = [(d, d) for d in range(len(place)) if d not in inst.attributes.dimensions]
    elif inst.is_a("broadcast"):
        sizes = inst.operands[0].array.dims
        pairs = [
            (new, old)
            for old, new in enumerate(inst.attributes.dimensions)
            if sizes[old] == inst.array.dims[new]
        ]
    elif inst.is_a("reshape") and inst.array.elements:
        pairs = _kept_dimensions(inst.array, inst.operands[0].array)
    else:
        return
    found = {old: place[new] for new, old in pairs}
    yield inst.operands[0], tuple(map(found.get, range(inst.operands[0].array.rank)))


def _kept_dimensions(new: ArrayShape, old: ArrayShape) -> list[tuple[int, int]]:
    """Return the dimensions of `old` that a reshape to `new` leaves as they are, as pairs."""
    pairs: list[tuple[int, int]] = []
    for made, source in reshape_groups(new.dims, old.dims):
        if [old.dims[d] for d in source] == [new.dims[d] for d in made]:
            pairs += zip(made, source, strict=True)
    return pairs


def _moved(place: Place, dim: int, distance: int | None) -> Place:
    """Return `place` with another distance along `dim`, unknown if that is None."""
    along = place[dim]
    moved = None if along is None or distance is None else (along[0], along[1] + distance)
    return (*place[:dim], moved, *place[dim + 1 :])


def _meets(inst: Instruction, place: Place, box: Box) -> bool:
    """False if no element of `inst`, read at `place`, lies in `box`."""
    for size, along in zip(inst.array.dims, place, strict=True):
        if along is not None:
            positions = box[along[0]]
            if positions.stop + along[1] <= 0 or positions.start + along[1] >= size:
                return False
    return True
