"""Checks that two states give the same results on many inputs, or finds the wrong rewrite.

Inputs are normal, uniform and special values (NaN, infinities, -0, subnormals, extreme integers);
both states run in the evaluator, or compiled if that would take too long.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from hloc.analysis.diff.module_lines import element_text
from hloc.analysis.diff.rewrite_text import RewriteText, describe_rewrite
from hloc.errors import HloError, InternalError
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.report.answers import (
    LARGE_INPUT_BYTES,
    InputSet,
    Runner,
    differing,
    evaluated,
    is_random,
    is_too_large,
)
from hloc.report.compare import Comparison, compare
from hloc.report.input_specs import parameters_of, uniform_set
from hloc.report.inputs import parameter_leaves, random_inputs, special_inputs
from hloc.report.time_limit import TookTooLong
from repl.recipe import first_wrong
from repl.rules import rule_place
from repl.running import bounds_of, check_runnable, run_compiled
from repl.session import Session
from repl.state import State, path

_Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
_FaultOf: TypeAlias = Callable[[Module], str]

SETS_OF_A_KIND = 8
_SHOWN = 6


@dataclass(frozen=True, slots=True)
class Example:
    """The first inputs on which two states differ, as text."""

    inputs: str
    values: tuple[str, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Culprit:
    """The rewrite that makes the difference.

    Attributes:
        state: label of the state whose pass made it.
        number, of: number of the rewrite in that pass, and their total; 0 for an edit or a
            pass that counts none.
        by: `pass/rule`, or the origin of the state.
        place: where the rule is defined.
        text: the instructions before and after.
    """

    state: str
    number: int
    of: int
    by: str
    place: str
    text: RewriteText


@dataclass(frozen=True, slots=True)
class Verified:
    """Comparison of two states on several sets of inputs.

    Attributes:
        comparisons: one for each set that both could be run on.
        sets: names of these sets.
        planned: number of sets without the time limit.
        refused: why a state no longer runs on inputs that the other accepts, "" if it does.
    """

    before: State
    after: State
    comparisons: tuple[Comparison, ...]
    sets: tuple[str, ...] = ()
    planned: int = 0
    refused: str = ""
    example: Example | None = None
    culprit: Culprit | None = None

    @property
    def ok(self) -> bool:
        return not self.refused and all(c.ok for c in self.comparisons)

    @property
    def differing_sets(self) -> int:
        return sum(not c.ok for c in self.comparisons)


def verify(session: Session, before: str = "s0", after: str = "$") -> Verified:
    """Compare two states on 24 sets of inputs; a difference is traced to its rewrite.

    Raises:
        HloError: a state is invalid, draws random numbers, or cannot be run.
    """
    new = session.state(after)
    return verify_states(session, session.state(before), new)


def verify_states(session: Session, old: State, new: State) -> Verified:
    """Compare two states; see `verify`."""
    for state in (old, new):
        check_runnable(session, state)
        if is_random(state.module):
            raise HloError("rng draws different numbers on each run; results cannot be compared")
    if parameter_leaves(old.module) != parameter_leaves(new.module):
        raise HloError(f"{old.label} and {new.label} take different inputs")
    return _Verification(session, old, new, _runner(session, old.module)).run()


def _runner(session: Session, module: Module) -> Runner:
    if is_too_large(module):
        return lambda module, arrays: run_compiled(session, module, arrays)
    return evaluated


def planned_sets(module: Module, seed: int) -> list[str]:
    """Return the names of the sets: three kinds in turn, fewer if inputs are large."""
    size = sum(shape.size_bytes for shape in parameter_leaves(module))
    if not parameter_leaves(module):
        return ["no inputs"]
    count = 1 if size > LARGE_INPUT_BYTES else SETS_OF_A_KIND
    return [f"{kind}, seed {seed + i}" for i in range(count) for kind in _KINDS]


_KINDS = {"normal": random_inputs, "uniform": uniform_set, "special": special_inputs}


def _input_set(module: Module, name: str) -> InputSet:
    kind, _, seed = name.partition(", seed ")
    return InputSet(name, _KINDS[kind](module, int(seed)) if seed else [])


@dataclass(frozen=True, slots=True)
class _Verification:
    session: Session
    old: State
    new: State
    runner: Runner

    def run(self) -> Verified:
        """Compare the states on one input set after another, until `verify-seconds` are over.

        If an answer differs, the other sets run too; then the wrong rewrite is searched on the
        first one.

        Raises:
            HloError: the old state runs on no inputs.
        """
        session, old, new = self.session, self.old, self.new
        names = planned_sets(old.module, session.inputs.seed)
        comparisons: list[Comparison] = []
        done: list[str] = []
        first: InputSet | None = None
        refused = ""
        end = time.monotonic() + session.settings.number("verify-seconds")
        what = f"verify {old.label} {new.label}"
        for name in session.progress.track(what, names):
            given = _input_set(old.module, name)
            want = self._answer(old.module, given)
            if want is not None:
                try:
                    got = self.runner(new.module, given.arrays)
                except (HloError, TookTooLong) as fault:
                    refused, first = f"{new.label} no longer runs: {fault}", given
                    break
                found = compare(got, want, bounds_of(session))
                comparisons.append(found)
                done.append(name)
                if not found.ok and first is None:
                    first = given
            if time.monotonic() > end:
                break
        if not comparisons and not refused:
            raise HloError(f"{old.label} does not run on any inputs")
        example = self._example(first) if first and not refused else None
        culprit = self._culprit(first) if first else None
        return Verified(
            old, new, tuple(comparisons), tuple(done), len(names), refused, example, culprit
        )

    def _answer(self, module: Module, given: InputSet) -> list[_Array] | None:
        try:
            return self.runner(module, given.arrays)
        except TookTooLong:
            return None

    def _example(self, given: InputSet) -> Example:
        parameters = parameters_of(self.old.module)
        values = [
            f"{p.names[0]} = {_short(array)}"
            for p, array in zip(parameters, given.arrays, strict=True)
        ]
        before, after = (
            tuple(_short(array) for array in self.runner(state.module, given.arrays))
            for state in (self.old, self.new)
        )
        return Example(given.name, tuple(values[:4]), before[:4], after[:4])

    # ---- attribution

    def _fault(self, module: Module, given: InputSet, want: Sequence[_Array]) -> str:
        try:
            return differing(self.runner(module, given.arrays), want)
        except (HloError, TookTooLong) as fault:
            return f"it no longer runs: {fault}"

    def _culprit(self, given: InputSet) -> Culprit | None:
        """Return the first rewrite that changes the results on these inputs."""
        states = path(self.old, self.new)
        want = self._answer(self.old.module, given)
        if not states or want is None:
            return None
        low, high = -1, len(states) - 1
        while high - low > 1:
            middle = (low + high) // 2
            wrong = not states[middle].faults and self._fault(states[middle].module, given, want)
            low, high = (low, middle) if wrong else (middle, high)
        return culprit_in(states[high], lambda module: self._fault(module, given, want))


def culprit_in(state: State, fault_of: _FaultOf) -> Culprit | None:
    """Return the rewrite of the pass of `state` that causes the fault `fault_of` finds."""
    recipe, parent = state.recipe, state.parent
    if parent is None:
        return None
    if recipe is None or state.base is not None:
        by = next((event.by for event in state.events if event.by), state.how)
        text = describe_rewrite(state.events)
        return Culprit(state.label, state.step, state.step, by, rule_place(by), text)
    whole = recipe.run(parent.module)
    total = len(whole.rules)
    if not total:
        return Culprit(state.label, 0, 0, recipe.what.name, "", describe_rewrite(state.events))
    try:
        number, _ = first_wrong(recipe, parent.module, total, fault_of)
    except (InternalError, AssertionError):
        return None
    by = whole.rules[number - 1]
    text = describe_rewrite(recipe.run(parent.module, number).events_of(number))
    return Culprit(state.label, number, total, by, rule_place(by), text)


def _short(array: _Array) -> str:
    """Return the first elements: `{nan, inf, -0, ...}`."""
    texts = [element_text(element) for element in array.reshape(-1)[:_SHOWN]]
    if array.ndim == 0:
        return texts[0]
    return "{" + ", ".join(texts + ["..."] * (array.size > _SHOWN)) + "}"
