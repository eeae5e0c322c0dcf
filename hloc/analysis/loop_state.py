"""The leaves of a loop's state: which never change, and which are equal in every iteration."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import NamedTuple

from hloc.analysis.dataflow import Position
from hloc.analysis.leaf_source import leaf_source
from hloc.dtypes import TOKEN
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.traversal import post_order
from hloc.lazy_dataclass import dataclass
from hloc.shapes import ArrayShape, ShapeIndex, TupleShape, leaves

_ROUNDS = 10
"""Maximum number of rounds over the body in which classes of equal leaves are split."""


@dataclass(frozen=True, slots=True)
class LoopState:
    """The state of one while loop, leaf by leaf.

    Attributes:
        loop: the while.
        indices: index of each leaf; leaf numbers below are positions in this tuple.
        shapes: shape of each leaf.
        init: the initial value of each leaf.
        after: the value of each leaf after an iteration, a position in the body.
        number: the leaf number of each index.
    """

    loop: Instruction
    indices: tuple[ShapeIndex, ...]
    shapes: tuple[ArrayShape, ...]
    init: tuple[Position, ...]
    after: tuple[Position, ...]
    number: dict[ShapeIndex, int]

    @property
    def parameter(self) -> Instruction:
        """The state inside the body."""
        return self.loop.called[1].parameters[0]

    @property
    def is_nested(self) -> bool:
        """True if the state holds tuples in tuples."""
        shape = self.loop.shape
        return isinstance(shape, TupleShape) and any(
            isinstance(element, TupleShape) for element in shape.elements
        )

    def __len__(self) -> int:
        return len(self.indices)


def loop_state(loop: Instruction) -> LoopState | None:
    """Return the state of `loop`, None if it has leaves that passes must not change.

    Those are leaves with dynamic dimensions, buffers, and leaves whose layout differs between the
    initial value, the loop, condition and body; also None where a tuple has control predecessors.
    """
    condition, body = loop.called
    shapes = [
        loop.shape,
        loop.operands[0].shape,
        condition.parameters[0].shape,
        body.parameters[0].shape,
        body.root.shape,
    ]
    if any(shape != loop.shape for shape in shapes):
        return None
    found = list(leaves(loop.shape))
    if not all(isinstance(s, ArrayShape) and not any(s.dynamic) for _, s in found):
        return None
    controlled = (*condition.controlled, *body.controlled)
    if any(inst.opcode.nop for inst in controlled):
        return None
    indices = tuple(index for index, _ in found)
    return LoopState(
        loop,
        indices,
        tuple(s for _, s in found if isinstance(s, ArrayShape)),
        tuple(leaf_source(loop.operands[0], index) for index in indices),
        tuple(leaf_source(body.root, index) for index in indices),
        {index: n for n, index in enumerate(indices)},
    )


@dataclass(frozen=True, slots=True)
class LeafClasses:
    """Which leaves are equal, and which keep their first value.

    Attributes:
        first: for each leaf, the first one that is equal to it in every iteration.
        invariant: the leaves that never change.
    """

    first: tuple[int, ...]
    invariant: frozenset[int]


def leaf_classes(state: LoopState, pinned: Iterable[int] = ()) -> LeafClasses:
    """Return the classes of equal leaves; a leaf in `pinned` is its own class and not invariant.

    Starts with classes of leaves with one initial value and splits them until an iteration
    keeps every class. Cost: O(body) per round; after `_ROUNDS` rounds only what the body forwards
    counts as invariant, and nothing as equal. Several passes ask for the same loop, so the answers
    are kept until the body changes.
    """
    known = state.loop.called[1].derived(_known_classes)
    alone = frozenset(pinned)
    initial = tuple(_initial_values(state, alone))
    if initial not in known:
        known[initial] = _leaf_classes(state, initial, alone)
    return known[initial]


def _known_classes(body: Computation) -> dict[tuple[Hashable, ...], LeafClasses]:
    """Return an empty map of the answers of `leaf_classes` for loops with this body."""
    return {}


def _initial_values(state: LoopState, alone: frozenset[int]) -> Iterator[Hashable]:
    """Yield a key for each leaf, the same for leaves with one initial value."""
    first: dict[Position, int] = {}
    for n, (inst, index) in enumerate(state.init):
        if n in alone:
            yield "pinned", n
        elif inst.is_a("constant") and not index and not inst.attributes.literal.is_elided:
            yield _constant_key(inst)
        else:
            yield "outside", first.setdefault((inst, index), n)


def _leaf_classes(
    state: LoopState, initial: tuple[Hashable, ...], alone: frozenset[int]
) -> LeafClasses:
    """Return the classes by partition refinement, as for the states of a finite automaton.

    Two leaves stay in a class while an iteration that starts with equal leaves in it ends so.
    Where all initial values differ, no two leaves can be equal, and each is looked at alone.
    """
    if len({*initial}) == len(initial):
        kept = (n for n, key in enumerate(initial) if n not in alone and _keeps(state, n, key))
        return LeafClasses(tuple(range(len(state))), frozenset(kept))
    numbers = _Numbers()
    begin = [numbers.of(key) for key in initial]
    classes = list(begin)
    steps = [_Step.of(inst, numbers) for inst in post_order(state.loop.called[1])]
    for _ in range(_ROUNDS):
        after = _values_after(state, steps, classes, numbers)
        split = [
            old if new == old == start and n not in alone else numbers.of(("varies", old, new))
            for n, (start, old, new) in enumerate(zip(begin, classes, after, strict=True))
        ]
        same = [n for n in range(len(state)) if split[n] == begin[n]]
        stable = len(set(split)) == len(set(classes)) and all(
            split[n] == begin[n] or classes[n] != begin[n] for n in range(len(state))
        )
        classes = split
        if stable:
            return LeafClasses(_first_of_each(classes), frozenset(same))
    parameter = state.parameter
    handed_on = frozenset(
        n
        for n, at in enumerate(state.after)
        if at == (parameter, state.indices[n]) and n not in alone
    )
    return LeafClasses(tuple(range(len(state))), handed_on)


def _keeps(state: LoopState, n: int, initial: Hashable) -> bool:
    """True if leaf n, equal to no other, is handed on or set to the constant that it was before."""
    inst, index = state.after[n]
    if inst is state.parameter:
        return index == state.indices[n]
    return inst.is_a("constant") and not index and _constant_key(inst) == initial


def _first_of_each(classes: list[int]) -> tuple[int, ...]:
    first: dict[int, int] = {}
    return tuple(first.setdefault(c, n) for n, c in enumerate(classes))


def _constant_key(inst: Instruction) -> Hashable:
    literal = inst.attributes.literal
    return ("elided", inst.uid) if literal.is_elided else ("constant", literal)


class _Numbers:
    """A number for each key, the same for equal keys."""

    def __init__(self) -> None:
        self._of: dict[Hashable, int] = {}

    def of(self, key: Hashable) -> int:
        return self._of.setdefault(key, len(self._of))


class _Step(NamedTuple):
    """The dependences of an instruction of the body.

    Attributes:
        source: where the value comes from, if the instruction only forwards it.
        kind: the number of everything that is the same in every round.
        operands: the values that distinguish it from others of its kind.
    """

    inst: Instruction
    source: Position | None
    kind: int = 0
    operands: tuple[Instruction, ...] = ()

    @classmethod
    def of(cls, inst: Instruction, numbers: _Numbers) -> _Step:
        """Return the dependences of `inst`."""
        source = leaf_source(inst)
        if source[0] is not inst:
            return cls(inst, source)
        if inst.is_a("constant"):
            return cls(inst, None, numbers.of(_constant_key(inst)))
        if (
            inst.is_a("custom-call", "parameter")
            or inst.opcode.side_effect
            or inst.called
            or inst.control_predecessors
            or (isinstance(inst.shape, ArrayShape) and inst.shape.dtype is TOKEN)
        ):
            return cls(inst, None, numbers.of(("alone", inst.uid)))
        key = inst.opcode.name, inst.shape, inst.attributes, inst.common.result_accuracy
        return cls(inst, None, numbers.of(key), inst.operands)


def _values_after(
    state: LoopState, steps: Iterable[_Step], classes: list[int], numbers: _Numbers
) -> list[int]:
    """Return a number for each leaf after an iteration; equal numbers are equal values."""
    parameter = state.parameter
    values: dict[Instruction, int] = {}

    def value_at(at: Position) -> int:
        inst, index = at
        if inst is parameter and index in state.number:
            return classes[state.number[index]]
        return numbers.of(("part", values[inst], index)) if index else values[inst]

    for inst, source, kind, operands in steps:
        if source is not None:
            values[inst] = value_at(source)
        elif inst is parameter and () in state.number:
            values[inst] = classes[0]
        elif operands:
            read = [values[operand] for operand in operands]
            if inst.opcode.commutative:
                read.sort()
            values[inst] = numbers.of((kind, *read))
        else:
            values[inst] = kind
    return [value_at(at) for at in state.after]
