"""A module and its states after each pass of a pipeline, and after each single rewrite.

A pipeline takes long on a large module: it runs in parts, and the page shows the states so far.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import field
from functools import partial
from math import inf
from typing import TYPE_CHECKING, TypeAlias

from hloc import driver
from hloc.collection import collection_paused
from hloc.errors import HloError, printable
from hloc.ir.verifier import check
from hloc.lazy_dataclass import dataclass
from hloc.report.text import plural
from hloc.web.limits import KEPT_STATES, KEPT_WALKS
from hloc.web.pass_rows import Data, first_row, pass_row
from repl.applying import Applied, follow
from repl.commands.passes import pipeline_of
from repl.passes import run_guarded
from repl.recipe import Replay
from repl.results import Message
from repl.session import Session
from repl.state import State
from repl.walk import Walk

if TYPE_CHECKING:
    from repl.kernels.steps import KernelSteps

StepsOf: TypeAlias = "Callable[[Session, str], KernelSteps]"


@dataclass(slots=True, eq=False)
class Walked:
    """A module, and its states after the passes that ran so far.

    Attributes:
        session: holds the original module, and a state for each pass that changed it.
        coming: runs the next pass when it is advanced; yields the pass's row in the page's list, or
            a note.
        first: the row of the original module.
        passes: a row for every pass that ran, including those that changed nothing.
        notes: warnings, such as a fixpoint that did not converge, and the reason for stopping
            early.
        is_done: all passes have run.
        fault: the error that ended the run, None if there is none.
        limit: seconds of processor time for all passes.
    """

    session: Session
    coming: Iterator[Data | str]
    first: Data
    passes: list[Data] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    is_done: bool = False
    fault: HloError | None = None
    limit: float = inf
    _spent: float = 0.0
    _inside: OrderedDict[tuple[int, int], State] = field(default_factory=OrderedDict)
    _whole: dict[int, Replay] = field(default_factory=dict)
    _kernel: tuple[tuple[str, str], KernelSteps] | None = None

    def advance(self, seconds: float) -> None:
        """Run the next passes for about `seconds`, at least one.

        An error ends the run and becomes its last note; earlier states remain.
        """
        end = time.monotonic() + seconds
        with collection_paused():  # the collector would take a third of the time and find nothing
            while not self.is_done:
                self._step()
                if time.monotonic() >= end:
                    return

    def _step(self) -> None:
        """Run one pass, unless the time for passes is spent; a fault ends the walk."""
        if self._spent > self.limit:
            self._end(f"stopped after {self.limit:g} s of passes")
            return
        started = time.process_time()
        try:
            found = next(self.coming, None)
        except HloError as fault:
            self.fault = fault
            self._end(f"stopped: {printable(fault.message)}")
            return
        self._spent += time.process_time() - started
        if found is None:
            self._end("")
        elif isinstance(found, str):
            self.notes.append(printable(found))
        else:
            self.passes.append(found)

    def _end(self, why: str) -> None:
        self.is_done = True
        self.notes += [why] * bool(why)

    def state(self, number: int, rewrite: int = 0) -> State:
        """Return the state after changing pass `number`, or inside that pass; runs it if necessary.

        Args:
            number: 0 for the original module.
            rewrite: after this many single rewrites of the pass; 0 for all of them.

        Raises:
            HloError: there is no such state.
        """
        states = self.session.states
        while number >= len(states) and not self.is_done:
            self.advance(0)
        if not 0 <= number < len(states):
            raise HloError(f"there is no state {number}; the last one is {len(states) - 1}")
        if not rewrite:
            return states[number]
        total = len(self.whole(number).rules)
        if not 0 < rewrite <= total:
            raise HloError(f"state {number} was made by {plural(total, 'rewrite')}")
        return self._after(number, rewrite, self._before(number, rewrite))

    def before(self, state: State) -> State:
        """Return the state before the last pass or rewrite of `state`; the first one itself."""
        return state.parent or state

    def go_to(self, state: State) -> Session:
        """Make `state` the current one of the session, which is returned."""
        if state.base is None:
            self.session.tree.goto(state.label)
        else:
            self.session.tree.enter(state)
        return self.session

    def kernel(self, state: State, name: str, steps: StepsOf) -> KernelSteps:
        """Return the kernel of instruction `name` of a state for stepping; the last one is cached.

        Raises:
            HloError: as `steps`, which opens it.
        """
        key = state.label, name
        if self._kernel is None or self._kernel[0] != key:
            self._kernel = None
            self._kernel = key, steps(self.go_to(state), name)
        return self._kernel[1]

    def whole(self, number: int) -> Replay:
        """Return the run of the pass that led to state `number`, to count its rewrites."""
        state = self.session.states[number]
        if number not in self._whole:
            if state.recipe is None or state.parent is None:
                raise HloError("no pass led to the original module")
            self._whole[number] = run_guarded(self.session, state.parent, state.recipe, None)
        return self._whole[number]

    def _before(self, number: int, rewrite: int) -> State:
        base = self.session.states[number].parent
        assert base is not None
        return base if rewrite == 1 else self._after(number, rewrite - 1, base)

    def _after(self, number: int, rewrite: int, parent: State) -> State:
        """Return the state after some rewrites; its events are those since `parent`."""
        key = number, rewrite
        known = self._inside.pop(key, None)
        if known is None or known.parent is not parent:
            state = self.session.states[number]
            base = state.parent
            assert base is not None
            assert state.recipe is not None
            replay = run_guarded(self.session, base, state.recipe, None, rewrite)
            faults = tuple(diagnostic.message for diagnostic in check(replay.module)[:1])
            events = replay.events_after(parent.step if parent.base is base else 0)
            by = replay.rules[-1]
            known = State(
                base.number, parent, by, replay.module, events, ((by, 1),), replay.wall_ms,
                state.recipe, faults, base, rewrite,
            )  # fmt: skip
        self._inside[key] = known
        while len(self._inside) > KEPT_STATES:
            self._inside.popitem(last=False)
        return known


@dataclass(slots=True, eq=False)
class Walks:
    """A cache of the last few modules with their pipelines, so that no step runs them again.

    Attributes:
        new_session: returns a session for one of them, which decides where compiled code runs.
        limit: seconds of processor time for all passes of a pipeline.
    """

    new_session: Callable[[], Session] = Session
    limit: float = inf
    _kept: OrderedDict[tuple[str, ...], Walked] = field(default_factory=OrderedDict)

    def of(self, text: str, pipeline: str) -> Walked:
        """Return the states of the module `text` in `pipeline`, a level or passes.

        Raises:
            HloError: the text or the pipeline has faults.
        """
        return self.kept((text, pipeline), partial(begin_walk, text, pipeline))

    def kept(self, key: tuple[str, ...], begin: Callable[[Session], Walked]) -> Walked:
        """Return the states cached under `key`, or new ones from `begin`.

        Raises:
            HloError: as `begin`.
        """
        found = self._kept.pop(key, None)
        if found is None:
            found = begin(self.new_session())
            found.limit = self.limit
        self._kept[key] = found
        while len(self._kept) > KEPT_WALKS:
            self._kept.popitem(last=False)[1].session.close()
        return found


def begin_walk(text: str, pipeline: str, session: Session) -> Walked:
    """Return the module `text`, ready to run `pipeline`.

    Args:
        text: of HLO.
        pipeline: a level or passes.
        session: a new one.

    Raises:
        HloError: the text or the pipeline has faults.
    """
    module = driver.parse_text(text, name="module")
    passes = pipeline_of(pipeline).passes
    first = session.load_module(module)
    return Walked(session, _rows(session, Walk.of(pipeline, passes)), first_row(first))


def _rows(session: Session, walk: Walk) -> Iterator[Data | str]:
    """Run the passes one by one; yield the row of each, and notes."""
    for outcome in follow(session, walk):
        if isinstance(outcome, Applied):
            yield pass_row(outcome)
            yield from outcome.warnings
        else:
            yield outcome.text.strip() if isinstance(outcome, Message) else outcome.why
