"""The integer inputs of a module that are used as indices, and their ranges.

Random indices out of range are clamped or skipped, so they would test little else.
The search goes backwards from every index operand, through instructions that forward integers
unchanged or shifted (reshape, select, add, while state ...), to the parameters of the entry
computation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import all_instructions
from hloc.shapes import ArrayShape, ShapeIndex, leaves, shape_at

Place: TypeAlias = tuple[Instruction, ShapeIndex]
"""A leaf of the value of an instruction."""

_ALL_OPERANDS = frozenset(
    ("add", "and", "clamp", "concatenate", "maximum", "minimum", "or", "subtract")
)


def index_limits(module: Module) -> dict[int, int]:
    """Return the largest useful value of each entry parameter leaf that is used as an index."""
    numbers = _leaf_numbers(module)
    limits: dict[int, int] = {}
    seen: set[Place] = set()
    # The smallest limit first: a place with several uses then keeps the limit valid for all.
    for limit, use in sorted(_index_uses(module), key=lambda found: found[0]):
        stack = [use]
        while stack:
            place = stack.pop()
            if place in seen or not _is_integer(place):
                continue
            seen.add(place)
            number = numbers.get(place)
            if number is not None:
                limits[number] = limit
            stack.extend(_sources(place))
    return limits


def _leaf_numbers(module: Module) -> dict[Place, int]:
    places = [
        (parameter, index)
        for parameter in module.entry.parameters
        for index, leaf in leaves(parameter.shape)
        if not (isinstance(leaf, ArrayShape) and leaf.dtype.is_special)
    ]
    return {place: number for number, place in enumerate(places)}


def _is_integer(place: Place) -> bool:
    shape = shape_at(place[0].shape, place[1])
    return isinstance(shape, ArrayShape) and shape.dtype.is_integer


# ---------------------------------------------------------------- where indices are used


def _index_uses(module: Module) -> Iterator[tuple[int, Place]]:
    """Yield every index operand with the largest index that reads or writes in range."""
    for inst in all_instructions(module):
        match inst.opcode.name:
            case "gather":
                yield _gather_limit(inst), (inst.operands[1], ())
            case "scatter":
                yield _scatter_limit(inst), (inst.operands[_scatter_inputs(inst)], ())
            case "dynamic-slice":
                yield from _slice_uses(inst, inst.attributes.dynamic_slice_sizes, 1)
            case "dynamic-update-slice":
                yield from _slice_uses(inst, inst.operands[1].array.dims, 2)


def _gather_limit(inst: Instruction) -> int:
    a, dims = inst.attributes, inst.operands[0].array.dims
    return min((dims[d] - a.slice_sizes[d] for d in a.start_index_map), default=0)


def _scatter_inputs(inst: Instruction) -> int:
    return (len(inst.operands) - 1) // 2


def _scatter_limit(inst: Instruction) -> int:
    a, dims = inst.attributes, inst.operands[0].array.dims
    updates = inst.operands[-1].array.dims
    inserted = {*a.inserted_window_dims, *a.input_batching_dims}
    window_dims = [d for d in range(len(dims)) if d not in inserted]
    sizes = dict.fromkeys(range(len(dims)), 1)
    for dim, update_dim in zip(window_dims, a.update_window_dims, strict=False):
        sizes[dim] = updates[update_dim]
    return min((dims[d] - sizes[d] for d in a.scatter_dims_to_operand_dims), default=0)


def _slice_uses(
    inst: Instruction, sizes: tuple[int, ...], first: int
) -> Iterator[tuple[int, Place]]:
    dims = inst.operands[0].array.dims
    for dim, start in enumerate(inst.operands[first:]):
        if dim < len(sizes):
            yield dims[dim] - sizes[dim], (start, ())


# ---------------------------------------------------------------- where values come from


def _sources(place: Place) -> Iterator[Place]:
    """Yield the places whose integers are forwarded to `place`."""
    inst, index = place
    name = inst.opcode.name
    if name == "parameter":
        yield from _arguments(inst, index)
    elif name == "tuple":
        yield inst.operands[index[0]], index[1:]
    elif name == "get-tuple-element":
        yield inst.operands[0], (inst.attributes.index, *index)
    elif name == "while":
        yield inst.operands[0], index
        yield inst.called[1].root, index
    elif name == "conditional":
        yield from ((branch.root, index) for branch in inst.called)
    elif inst.opcode.control_flow or name == "fusion":
        yield inst.called[0].root, index
    elif name == "select":
        yield from ((operand, index) for operand in inst.operands[1:])
    elif name == "sort":
        yield inst.operands[index[0] if index else 0], ()
    elif name in _ALL_OPERANDS:
        yield from ((operand, index) for operand in inst.operands)
    elif inst.opcode.data_movement or name in ("convert", "opt-barrier"):
        yield inst.operands[0], index


def _arguments(parameter: Instruction, index: ShapeIndex) -> Iterator[Place]:
    """Yield the arguments that callers pass for `parameter`."""
    number: Any = parameter.attributes.number
    for caller in parameter.computation.callers:
        name = caller.opcode.name
        if name == "while":
            yield caller.operands[0], index
            yield caller.called[1].root, index
        elif name == "conditional":
            for branch, operand in zip(caller.called, caller.operands[1:], strict=False):
                if branch is parameter.computation:
                    yield operand, index
        elif caller.opcode.control_flow or name == "fusion":
            yield caller.operands[number], index
