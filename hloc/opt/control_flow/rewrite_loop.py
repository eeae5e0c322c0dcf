"""Rewrite a while loop with another state: fewer leaves, flat, some of them constants."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace

from hloc.analysis.dataflow import Position
from hloc.analysis.loop_state import LoopState
from hloc.ir.attributes import CommonAttributes
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.opt.control_flow.leafwise import (
    Copier,
    assembled,
    copied_constant,
    part_of,
    remove_uncalled,
    replace_leaves,
)
from hloc.opt.make import make
from hloc.shapes import ShapeIndex, TupleShape, shape_at


@dataclass(frozen=True, slots=True)
class NewState:
    """Mapping from a loop's state to its new state.

    Attributes:
        kept: numbers of the leaves that remain, in order.
        stands_for: for each leaf, the kept one that is its value inside the loop.
        known: leaves rematerialised inside the loop: a constant, or a few instructions over
            constants.
        invariant: leaves that never change: their result is their initial value.
        hoisted: positions of the body whose value now comes from outside the loop.
        later: what some of these are after an iteration, positions of the body; others stay.
    """

    kept: tuple[int, ...]
    stands_for: tuple[int, ...]
    known: Mapping[int, Instruction] = field(default_factory=dict)
    invariant: frozenset[int] = frozenset()
    hoisted: Mapping[Position, Instruction] = field(default_factory=dict)
    later: Mapping[Position, Position] = field(default_factory=dict)


def rewrite_loop(
    state: LoopState, new: NewState, effects: Callable[[Computation], Iterable[Instruction]]
) -> Instruction | None:
    """Replace the loop by one with state `new`; remove the old condition and body if uncalled.

    Args:
        state: the current loop.
        new: its new state. Without any leaf or hoisted value the loop itself is removed.
        effects: the instructions of a computation that have side effects.

    Returns:
        The new loop, None if none is needed.
    """
    loop = state.loop
    computation, old = loop.computation, loop.called
    new_loop = None
    if new.kept:
        new_loop = _new_loop(state, new, effects)
    position = {n: place for place, n in enumerate(new.kept)}

    def result(n: int) -> Instruction:
        kept = new.stands_for[n]
        if kept in position and n not in new.invariant:
            assert new_loop is not None
            return part_of(new_loop, (position[kept],))
        return part_of(loop.operands[0], state.indices[n])

    replace_leaves(loop, state.number, result)
    computation.remove(loop)
    remove_uncalled(*old)
    return new_loop


def _new_loop(
    state: LoopState, new: NewState, effects: Callable[[Computation], Iterable[Instruction]]
) -> Instruction:
    """Add a loop over the flat tuple of the kept leaves, then the hoisted values.

    Condition and body are copies of the old ones. The body returns the hoisted values unchanged,
    so that they are loop invariants.
    """
    loop = state.loop
    condition, body = loop.called
    computation, module = loop.computation, loop.computation.module
    shapes = [state.shapes[n] for n in new.kept] + [inst.shape for inst in new.hoisted.values()]
    shape = TupleShape(tuple(shapes))
    parts = [part_of(loop.operands[0], state.indices[n]) for n in new.kept]
    parts += new.hoisted.values()
    init = make(computation, "tuple", shape, *parts)
    called: list[Computation] = []
    for source in (condition, body):
        copy = module.add_computation(source.name, execution_thread=source.execution_thread)
        old = source.parameters[0]
        common = _common(old.common, state, new)
        parameter = copy.add(
            old.opcode, shape, attributes=old.attributes, name=old.name, common=common
        )
        copier = Copier(copy, _state_parts(state, new, parameter))
        positions = [(inst, ()) for inst in effects(source)]
        if source is body:
            first = len(new.kept)
            moved = {at: part_of(parameter, (first + n,)) for n, at in enumerate(new.hoisted)}
            copier.parts.update(moved)
            roots = [state.after[n] for n in new.kept]
            roots += [new.later.get(at, at) for at in new.hoisted]
            copier.copy([*positions, *roots])
            copy.set_root(make(copy, "tuple", shape, *[copier.part(*at) for at in roots]))
        else:
            copier.copy([*positions, (source.root, ())])
            copy.set_root(copier.part(source.root, ()))
        called.append(copy)
    return computation.add(
        loop.opcode,
        shape,
        [init],
        loop.attributes,
        called,
        name=loop.name,
        common=_common(loop.common, state, new),
        span=loop.span,
    )


def _common(common: CommonAttributes, state: LoopState, new: NewState) -> CommonAttributes:
    """Return the attributes that remain valid, without those that refer to leaves."""
    if len(new.kept) < len(state) or state.is_nested:
        return replace(common, sharding=None, origin=None, backend_config=None)
    return replace(common, sharding=None, origin=None) if new.hoisted else common


def _state_parts(
    state: LoopState, new: NewState, parameter: Instruction
) -> Callable[[ShapeIndex], Instruction]:
    """Return a function that gives parts of the old state inside the new loop."""
    place = {n: number for number, n in enumerate(new.kept)}
    parts: dict[int, Instruction] = {}

    def leaf(n: int) -> Instruction:
        key = n if n in new.known else new.stands_for[n]
        if key not in parts:
            known = new.known.get(n)
            if known is not None:
                parts[key] = copied_constant(known, parameter.computation)
            else:
                parts[key] = part_of(parameter, (place[key],))
        return parts[key]

    def part(index: ShapeIndex) -> Instruction:
        if index in state.number:
            return leaf(state.number[index])
        inside = [n for n, i in enumerate(state.indices) if i[: len(index)] == index]
        shape = shape_at(state.loop.shape, index)
        return assembled(parameter.computation, shape, [leaf(n) for n in inside])

    return part
