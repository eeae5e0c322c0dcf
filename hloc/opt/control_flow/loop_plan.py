"""Plan a smaller loop state: which leaves are needed, constant, or equal to another."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hloc.analysis.call_graph import has_side_effect, perhaps_effectful
from hloc.analysis.dataflow import Position
from hloc.analysis.divergence import may_diverge
from hloc.analysis.leaf_source import SourceWalk
from hloc.analysis.loop_state import LeafClasses, LoopState, leaf_classes
from hloc.dtypes import TOKEN
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.traversal import reachable_computations
from hloc.opt.control_flow.rewrite_loop import NewState


class Effects:
    """Finds instructions with side effects, also in computations added since the pass began.

    Collectives count if another device may reach them elsewhere.
    """

    def __init__(self) -> None:
        self._known: set[Computation] = set()
        self._effectful: set[Computation] = set()

    def __call__(self, computation: Computation) -> list[Instruction]:
        """Return the instructions of `computation` that have a side effect."""
        if computation not in self._known:
            for called in reachable_computations(computation):
                if called not in self._known:
                    self._known.add(called)
                    if self._has_effects(called):
                        self._effectful.add(called)
        counts = computation in self._effectful
        return [
            inst
            for inst in perhaps_effectful(computation)
            if has_side_effect(inst, self._effectful)
            or (counts and inst.opcode.exchange is not None)
        ]

    def _has_effects(self, computation: Computation) -> bool:
        insts = perhaps_effectful(computation)
        if any(has_side_effect(inst, self._effectful) for inst in insts):
            return True
        return any(i.opcode.exchange is not None for i in insts) and may_diverge(computation)

    def any_in(self, inst: Instruction) -> bool:
        """True if a computation that `inst` calls has a side effect."""
        return any(self(called) for called in inst.called)


def plan_loop(
    state: LoopState,
    effects: Effects,
    is_used: Callable[[int], bool],
    *,
    merge: bool = True,
    known: Callable[[Instruction], bool] | None = None,
) -> NewState | None:
    """Return the smallest equivalent loop state, None if it cannot shrink.

    Args:
        state: the loop.
        effects: finds side effects.
        is_used: whether a leaf of the loop's result is used.
        merge: merge equal leaves, and replace the result of an invariant leaf by its initial value.
        known: which initial values may be copied into the loop.
    """
    has_effects = effects.any_in(state.loop)
    pinned = _pinned(state, has_effects)
    classes = LeafClasses(tuple(range(len(state))), frozenset())
    copied: dict[int, Instruction] = {}
    if merge:
        classes = leaf_classes(state, pinned)
        copied = {} if known is None else _known_inside(state, classes, known)
    asked = [n for n in range(len(state)) if n in pinned or is_used(n)]
    varying = [n for n in asked if n not in classes.invariant]
    if not varying and not has_effects:
        kept: tuple[int, ...] = ()
    else:
        kept = _needed(state, classes, copied, varying, effects)
        if not kept:
            return None  # an endless loop has an effect
    same_size = len(kept) == len(state) and not state.is_nested and (kept or has_effects)
    if same_size and classes.invariant.isdisjoint(asked):
        return None
    return NewState(kept, classes.first, copied, classes.invariant)


def has_known_leaf(
    state: LoopState, effects: Effects, known: Callable[[Instruction], bool]
) -> bool:
    """True if a leaf never changes and its initial value may be copied into the loop."""
    if not any(not index and known(inst) for inst, index in state.init):
        return False
    classes = leaf_classes(state, _pinned(state, effects.any_in(state.loop)))
    return bool(_known_inside(state, classes, known))


def _pinned(state: LoopState, has_effects: bool) -> list[int]:
    """Return the tokens that may order side effects, though the body only forwards them."""
    return [n for n, s in enumerate(state.shapes) if s.dtype is TOKEN and has_effects]


def _known_inside(
    state: LoopState, classes: LeafClasses, known: Callable[[Instruction], bool]
) -> dict[int, Instruction]:
    """Return the initial values of invariant leaves that may be copied into the loop."""
    found = {n: state.init[n] for n in sorted(classes.invariant)}
    return {n: inst for n, (inst, index) in found.items() if not index and known(inst)}


def _needed(
    state: LoopState,
    classes: LeafClasses,
    copied: dict[int, Instruction],
    asked: list[int],
    effects: Effects,
) -> tuple[int, ...]:
    """Return the leaves that the condition, side effects and the leaves `asked` depend on."""
    condition, body = state.loop.called
    test, step = SourceWalk(), SourceWalk()
    for inst in (*effects(condition), condition.root):
        test.add(inst)
    for inst in effects(body):
        step.add(inst)
    needed: dict[int, None] = {}
    waiting = [*asked, *_leaves_at(state, test.reads), *_leaves_at(state, step.reads)]
    while waiting:
        n = classes.first[waiting.pop()]
        if n in copied or n in needed:
            continue
        needed[n] = None
        known = len(step.reads)
        step.add(*state.after[n])
        waiting += _leaves_at(state, step.reads[known:])
    return tuple(sorted(needed))


def _leaves_at(state: LoopState, parts: list[Position]) -> Iterator[int]:
    """Yield the leaves of the parts of the state in `parts`."""
    for _, index in parts:
        if index in state.number:
            yield state.number[index]
        else:
            yield from (n for n, i in enumerate(state.indices) if i[: len(index)] == index)
