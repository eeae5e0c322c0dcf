"""Boundaries in a result: indices at which its elements start to come from another operand.

A roll is a concatenation of two slices, a stencil reads a padded array. A loop over all positions
would test each element; loops from boundary to boundary need no tests.
"""

from __future__ import annotations

from collections.abc import Iterator

from hloc.codegen.builder.index import reshape_groups
from hloc.ir.instruction import Instruction
from hloc.shapes import ArrayShape

_MOST = 8
"""A dimension with more boundaries is not split: the code would grow with each."""


def boundaries(inst: Instruction, dim: int) -> tuple[int, ...]:
    """Return the boundaries in dimension `dim` of the result of `inst`, in order; () if too many.

    Several results of a fusion must have equal dimensions. An instruction with several results,
    such as a variadic reduce-window, has no boundaries.
    """
    root = inst.called[0].root if inst.is_a("fusion") else inst
    results = root.operands if root.is_a("tuple") else (root,)
    pending = [(leaf, dim, 0) for leaf in results if isinstance(leaf.shape, ArrayShape)]
    if not pending:
        return ()
    found: set[int] = set()
    size = pending[0][0].array.dims[dim]
    seen = set(pending)
    while pending:
        member, at, offset = pending.pop()
        found.update(edge - offset for edge in _edges(member, at) if 0 < edge - offset < size)
        if len(found) > _MOST:
            return ()
        for operand, source, shift in _sources(member, at):
            place = (operand, source, offset + shift)
            if place not in seen:
                seen.add(place)
                pending.append(place)
    return tuple(sorted(found))


def _edges(inst: Instruction, dim: int) -> tuple[int, ...]:
    """Return the positions along `dim` at which `inst` starts to read another operand."""
    if inst.is_a("pad"):
        padding = inst.attributes.padding[dim]
        if padding.interior:
            return ()
        return padding.low, padding.low + inst.operands[0].array.dims[dim]
    if inst.is_a("concatenate") and inst.attributes.dimensions[0] == dim:
        return tuple(start for _, start in _pieces(inst, dim))
    return ()


def _pieces(inst: Instruction, dim: int) -> Iterator[tuple[Instruction, int]]:
    """Yield the operands of a concatenation along `dim`, and where they begin."""
    start = 0
    for operand in inst.operands:
        yield operand, start
        start += operand.array.dims[dim]


def _sources(inst: Instruction, dim: int) -> Iterator[tuple[Instruction, int, int]]:
    """Yield the operands read at a fixed distance along a dimension: operand, dimension, distance.

    Position p of dimension `dim` reads position p + distance of the operand's dimension.
    """
    if inst.opcode.elemental is not None or inst.is_a("copy"):
        # A scalar predicate of a select, or what a bitcast splits, has no such dimension.
        yield from ((o, dim, 0) for o in inst.operands if dim < len(o.array.dims))
    elif inst.is_a("concatenate"):
        along = inst.attributes.dimensions[0] == dim
        yield from ((o, dim, -start if along else 0) for o, start in _pieces(inst, dim))
    elif inst.is_a("pad"):
        padding = inst.attributes.padding[dim]
        if not padding.interior:
            yield inst.operands[0], dim, -padding.low
    elif inst.is_a("slice"):
        bounds = inst.attributes.slice[dim]
        if bounds.stride == 1:
            yield inst.operands[0], dim, bounds.start
    elif inst.is_a("transpose"):
        yield inst.operands[0], inst.attributes.dimensions[dim], 0
    elif inst.is_a("broadcast"):
        if dim in inst.attributes.dimensions:
            source = inst.attributes.dimensions.index(dim)
            if inst.operands[0].array.dims[source] == inst.array.dims[dim]:
                yield inst.operands[0], source, 0
    elif inst.is_a("reshape"):
        operand = inst.operands[0].array
        if not operand.elements:
            return
        for new, old in reshape_groups(inst.array.dims, operand.dims):
            kept = [operand.dims[d] for d in old] == [inst.array.dims[d] for d in new]
            if dim in new and kept:
                yield inst.operands[0], old[new.index(dim)], 0
