"""The state machine behind the REPL: a history tree of module states, and what can be asked of it.

No terminal here: every command returns frozen data, which `render.py` draws and tests look at.
A state is never changed; a pass runs on a clone, whose change log tells what it did.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hloc import driver
from hloc.analysis.module_diff import ModuleDiff, diff_snapshots, snapshot
from hloc.cli.compare import Bounds, Comparison, compare
from hloc.cli.inputs import load_arrays, parameter_leaves, random_inputs
from hloc.cli.source_input import read_module
from hloc.errors import HloError
from hloc.ir.clone import clone_module
from hloc.ir.computation import Computation
from hloc.ir.events import Event
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import all_instructions
from hloc.opt.pass_base import PassContext
from hloc.opt.pipeline import Fixpoint, Pipeline, text_of
from repl.provenance import Origin, trace

VERIFY_SEEDS = (0, 1, 2)


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """One node of the history tree.

    Attributes:
        number: `s3` is number 3; s0 is the module as loaded.
        parent: the state it was made from, None for a loaded module.
        how: `load`, or the pass that made it.
        module: never changed again.
        events: what the pass did, from the parent's module to this one.
        rewrites: how often the pass changed something, by `pass/rule`.
    """

    number: int
    parent: State | None
    how: str
    module: Module
    events: tuple[Event, ...] = ()
    rewrites: tuple[tuple[str, int], ...] = ()
    wall_ms: float = 0.0

    @property
    def label(self) -> str:
        return f"s{self.number}"

    @property
    def instructions(self) -> int:
        return self.module.instruction_count

    @property
    def rewrite_count(self) -> int:
        return sum(count for _, count in self.rewrites)


@dataclass(frozen=True, slots=True)
class Applied:
    """What one pass did: the state it made, None if it changed nothing."""

    what: str
    state: State | None
    before: int
    after: int
    diff: ModuleDiff
    rewrites: tuple[tuple[str, int], ...]
    wall_ms: float
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Effect:
    """How much a pass would do here."""

    name: str
    summary: str
    rewrites: int | None
    """None if it was not tried."""


@dataclass(frozen=True, slots=True)
class StateDiff:
    """The differences between two states; `limit` is how many rows to show, None for all."""

    before: State
    after: State
    diff: ModuleDiff
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One state in the drawing of the tree; `depth` counts the branches to its left."""

    state: State
    is_current: bool
    depth: int


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts of a module."""

    state: State
    instructions: int
    computations: int
    opcodes: tuple[tuple[str, int], ...]
    parameter_bytes: int
    result_bytes: int
    constant_bytes: int


@dataclass(frozen=True, slots=True)
class RunResult:
    """Results of a run of the current state, and how they compare with the loaded module's."""

    state: State
    outputs: tuple[np.ndarray[Any, Any], ...]
    wall_ms: float
    comparison: Comparison | None
    compared_with: str
    inputs: str


@dataclass(frozen=True, slots=True)
class Verified:
    """Comparison of two states on several sets of random inputs, by the evaluator."""

    before: State
    after: State
    comparisons: tuple[Comparison, ...]

    @property
    def ok(self) -> bool:
        return all(c.ok for c in self.comparisons)


@dataclass(slots=True)
class Session:
    """History, the current state in it, and the inputs for runs."""

    states: list[State] = field(default_factory=list)
    _current: State | None = None
    _visited: dict[State, State] = field(default_factory=dict)  # parent -> child that redo takes
    _last_step: str = ""
    _inputs_file: str = ""
    _seed: int = 0
    _highest_uid: int = 0

    # ---- where we are

    @property
    def current(self) -> State:
        """The current state; raises HloError before anything is loaded."""
        if self._current is None:
            raise HloError("no module is loaded", notes=("use: load FILE",))
        return self._current

    @property
    def is_loaded(self) -> bool:
        return self._current is not None

    def state(self, label: str) -> State:
        """Return the state called `s3`, `prev` (the parent of the current one) or `$` (current)."""
        if label in ("$", "."):
            return self.current
        if label == "prev":
            parent = self.current.parent
            if parent is None:
                raise HloError(
                    f"{self.current.label} is a loaded module and has no state before it"
                )
            return parent
        number = label.removeprefix("s")
        if not number.isdecimal() or int(number) >= len(self.states):
            known = f"s0 to s{len(self.states) - 1}" if self.states else "none yet"
            raise HloError(f"there is no state {label!r}; states are {known}")
        return self.states[int(number)]

    # ---- load and move

    def load(self, path: str) -> State:
        """Load a module from a file; the history starts anew."""
        return self.load_module(read_module(path))

    def load_text(self, text: str, name: str = "<string>") -> State:
        """Load a module from text; the history starts anew."""
        return self.load_module(driver.parse_text(text, name=name))

    def load_module(self, module: Module) -> State:
        """Start a new history with `module`."""
        self.states.clear()
        self._visited.clear()
        self._last_step = ""
        self._inputs_file = ""
        self._highest_uid = module.new_uid()
        return self._enter(State(0, None, "load", module))

    def undo(self, count: int = 1) -> State:
        """Go back by `count` states."""
        state = self.current
        for _ in range(count):
            if state.parent is None:
                raise HloError("nothing to undo")
            self._visited[state.parent] = state
            state = state.parent
        self._current = state
        return state

    def redo(self, count: int = 1) -> State:
        """Go forward again by `count` states, along the branch that was undone last."""
        state = self.current
        for _ in range(count):
            if state not in self._visited:
                raise HloError("nothing to redo")
            state = self._visited[state]
        self._current = state
        return state

    def goto(self, label: str) -> State:
        """Make the state called `label` the current one."""
        self._current = self.state(label)
        return self._current

    def history(self) -> tuple[HistoryEntry, ...]:
        """Return all states, children after parents, the first child in the parent's column."""
        children: dict[State, list[State]] = {}
        for state in self.states:
            if state.parent is not None:
                children.setdefault(state.parent, []).append(state)
        found: list[HistoryEntry] = []
        stack = [(state, 0) for state in self.states[:1]]
        while stack:
            state, depth = stack.pop()
            found.append(HistoryEntry(state, state is self._current, depth))
            first, *others = children.get(state, [None])
            if first is not None:
                stack.append((first, depth))
            stack.extend((other, depth + 1) for other in reversed(others) if other is not None)
        return tuple(found)

    # ---- passes

    def apply(self, pipeline: Pipeline) -> Iterator[Applied]:
        """Run the passes of `pipeline`; each that changes something makes a state.

        A fixpoint is run round by round, so that its passes make states of their own.
        """
        for what in pipeline.passes:
            if isinstance(what, Fixpoint):
                yield from self._apply_fixpoint(what)
            else:
                yield self._run_pass(Pipeline((what,)), text_of(what), None)

    def _apply_fixpoint(self, fixpoint: Fixpoint) -> Iterator[Applied]:
        for _ in range(fixpoint.limit):
            before = self.current
            for applied in self.apply(Pipeline(fixpoint.passes)):
                if applied.state is not None:
                    yield applied
            if self.current is before:
                return

    def step(self, name: str = "") -> Applied:
        """Do one rewrite of the pass `name`, or of the pass stepped last."""
        text = name or self._last_step
        if not text:
            raise HloError("step what?", notes=("use: step PASS",))
        pipeline = Pipeline.parse(text)
        if len(pipeline.passes) != 1:
            raise HloError("step takes one pass")
        self._last_step = text
        return self._run_pass(pipeline, f"{text} (1 rewrite)", 1)

    def effects(self, names: Sequence[tuple[str, str]], try_out: bool) -> tuple[Effect, ...]:
        """Return the passes `(name, summary)`, with their rewrites here if `try_out`."""
        return tuple(
            Effect(name, summary, self._rewrites_of(name) if try_out else None)
            for name, summary in names
        )

    def _rewrites_of(self, name: str) -> int:
        module = self._working_copy()
        context = PassContext()
        Pipeline.parse(name).run(module, context)
        return context.rewrites

    def _working_copy(self) -> Module:
        """Return a clone of the current module that hands out uids no state has had."""
        module = clone_module(self.current.module)
        module.reserve_uids(self._highest_uid)
        return module

    def _run_pass(self, pipeline: Pipeline, how: str, limit: int | None) -> Applied:
        before = self.current
        module = self._working_copy()
        context = PassContext(rewrite_limit=limit)
        started = time.perf_counter()
        changed = pipeline.run(module, context)
        wall_ms = (time.perf_counter() - started) * 1e3
        self._highest_uid = max(self._highest_uid, module.new_uid())
        rewrites = tuple(sorted(context.fired.items()))
        warnings = tuple(context.warnings)
        if not changed:
            count = before.instructions
            return Applied(how, None, count, count, ModuleDiff(()), rewrites, wall_ms, warnings)
        events = tuple(module.log.events)
        state = State(len(self.states), before, how, module, events, rewrites, wall_ms)
        diff = diff_snapshots(snapshot(before.module), snapshot(module), events)
        self._enter(state)
        return Applied(
            how, state, before.instructions, state.instructions, diff, rewrites, wall_ms, warnings
        )

    def _enter(self, state: State) -> State:
        self.states.append(state)
        if state.parent is not None:
            self._visited[state.parent] = state
        self._current = state
        return state

    # ---- questions

    def find(self, name: str) -> Instruction:
        """Return the instruction called `name` (a leading % is allowed) in the current state."""
        wanted = name.removeprefix("%")
        for inst in all_instructions(self.current.module):
            if inst.name == wanted:
                return inst
        raise HloError(
            f"no instruction named {wanted!r} in {self.current.label}",
            notes=near_names(wanted, (i.name for i in all_instructions(self.current.module))),
        )

    def find_computation(self, name: str) -> Computation:
        """Return the computation called `name` (a leading @ or % is allowed)."""
        wanted = name.lstrip("@%")
        for computation in self.current.module.computations:
            if computation.name == wanted:
                return computation
        names = (c.name for c in self.current.module.computations)
        raise HloError(f"no computation named {wanted!r}", notes=near_names(wanted, names))

    def diff(
        self, before: str = "prev", after: str = "$", *, limit: int | None = None
    ) -> StateDiff:
        """Compare two states by instruction identity."""
        old, new = self.state(before), self.state(after)
        events = tuple(event for state in path(old, new) for event in state.events)
        found = diff_snapshots(snapshot(old.module), snapshot(new.module), events)
        return StateDiff(old, new, found, limit)

    def why(self, name: str) -> Origin:
        """Return where an instruction came from and what was done to it, from s0 on."""
        return trace(self.lineage(), name.removeprefix("%"))

    def lineage(self) -> tuple[State, ...]:
        """Return the states from the loaded module to the current one."""
        found = [self.current]
        while found[-1].parent is not None:
            found.append(found[-1].parent)
        return tuple(reversed(found))

    def stats(self) -> Stats:
        """Count what is in the current module."""
        state = self.current
        module = state.module
        opcodes = Counter(inst.opcode.name for inst in all_instructions(module))
        constants = [i for i in all_instructions(module) if i.is_a("constant")]
        return Stats(
            state,
            module.instruction_count,
            len(module.computations),
            tuple(sorted(opcodes.items(), key=lambda item: (-item[1], item[0]))),
            sum(p.shape.size_bytes for p in module.entry.parameters),
            module.entry.root.shape.size_bytes,
            sum(i.shape.size_bytes for i in constants),
        )

    # ---- run

    def use_inputs(self, path: str) -> str:
        """Take inputs of later runs from an .npz file; returns a description."""
        load_arrays(path, "arg", parameter_leaves(self.current.module))
        self._inputs_file = path
        return f"inputs from {path}"

    def use_seed(self, seed: int) -> str:
        """Take random inputs from `seed` for later runs; returns a description."""
        self._inputs_file, self._seed = "", seed
        return f"random inputs, seed {seed}"

    def run(self, *, interpret: bool = False) -> RunResult:
        """Run the current module as it stands and compare with the loaded one in the evaluator.

        Args:
            interpret: run it in the evaluator too, instead of compiling it.
        """
        state, origin = self.current, self.states[0]
        arrays, described = self._inputs()
        if interpret:
            started = time.perf_counter()
            outputs = driver.evaluate(state.module, *arrays)
        else:
            executable = driver.compile_as_it_stands(state.module)
            started = time.perf_counter()
            outputs = executable(*arrays)
        wall_ms = (time.perf_counter() - started) * 1e3
        if interpret and state is origin:
            return RunResult(state, tuple(outputs), wall_ms, None, "", described)
        want = driver.evaluate(origin.module, *arrays)
        found = compare(outputs, want, Bounds())
        return RunResult(state, tuple(outputs), wall_ms, found, "s0 in the evaluator", described)

    def _inputs(self) -> tuple[list[np.ndarray[Any, Any]], str]:
        module = self.states[0].module
        if self._inputs_file:
            arrays = load_arrays(self._inputs_file, "arg", parameter_leaves(module))
            return arrays, self._inputs_file
        return random_inputs(module, self._seed), f"random, seed {self._seed}"

    def verify(self, before: str = "s0", after: str = "$") -> Verified:
        """Evaluate two states on a few sets of random inputs and compare the results."""
        new, old = self.state(after), self.state(before)
        comparisons = []
        for seed in VERIFY_SEEDS:
            arrays = random_inputs(old.module, seed)
            want = driver.evaluate(old.module, *arrays)
            comparisons.append(compare(driver.evaluate(new.module, *arrays), want, Bounds()))
        return Verified(old, new, tuple(comparisons))


def path(old: State, new: State) -> tuple[State, ...]:
    """Return the states after `old` up to `new`, or nothing if `old` is not before `new`."""
    found: list[State] = []
    state: State | None = new
    while state is not None and state is not old:
        found.append(state)
        state = state.parent
    return tuple(reversed(found)) if state is old else ()


def near_names(wanted: str, names: Iterator[str]) -> tuple[str, ...]:
    """Return a note with the nearest of `names`, or nothing."""
    from difflib import get_close_matches

    near = get_close_matches(wanted, list(names)[:20000], n=1)
    return (f"did you mean {near[0]!r}?",) if near else ()
