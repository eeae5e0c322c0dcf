"""The state machine behind the REPL: a history tree of module states, and what can be asked of it.

No terminal here: every question returns frozen data, which `render.py` draws and tests look at.
A state is never changed; a pass runs on a clone, whose change log tells what it did. This class
holds what a session knows; what it does stands by theme in the modules that it calls.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hloc import driver
from hloc.analysis.module_diff import ModuleDiff
from hloc.errors import HloError, InternalError
from hloc.ir.computation import Computation
from hloc.ir.module import Module
from hloc.ir.traversal import all_instructions
from hloc.near_names import near_name_notes
from hloc.opt.pass_base import Pass
from hloc.opt.pipeline import Pipeline
from hloc.report.source_input import read_module
from repl import applying, running, stepping, verifying
from repl.applying import Applied as Applied
from repl.applying import Outcome
from repl.applying import Stopped as Stopped
from repl.history import HistoryEntry as HistoryEntry
from repl.passes import recipe_for
from repl.provenance import Origin, trace
from repl.results import Effect as Effect
from repl.running import RunResult as RunResult
from repl.session_state import SessionState
from repl.state import State as State
from repl.state import path
from repl.stepping import Stepped as Stepped
from repl.verifying import Verified as Verified
from repl.walk import Walk


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


@dataclass(slots=True)
class Session(SessionState):
    """A module's history, and what commands can ask of it."""

    def history(self) -> tuple[HistoryEntry, ...]:
        """Return all states, children after parents, the first child in the parent's column."""
        return self.tree.entries()

    # ---- load and move

    def load(self, path: str) -> State:
        """Load a module from a file; the history starts anew."""
        state = self.load_module(read_module(path))
        self.source_path = path
        return state

    def load_text(self, text: str, name: str = "<string>") -> State:
        """Load a module from text; the history starts anew."""
        return self.load_module(driver.parse_text(text, name=name))

    def load_module(self, module: Module) -> State:
        """Start a new history with `module`."""
        self.tree.clear()
        self.inputs.clear()
        self.watched.clear()
        self.walks.clear()
        self.stepping = self.pending = self.kernel = None
        self.last_step = self.source_path = ""
        self.highest_uid = module.new_uid()
        return self.tree.enter(State(0, None, "load", module))

    def undo(self, count: int = 1) -> State:
        """Go back by `count` states."""
        return self.tree.undo(count)

    def redo(self, count: int = 1) -> State:
        """Go forward again by `count` states, along the branch that was undone last."""
        return self.tree.redo(count)

    def goto(self, label: str) -> State:
        """Make the state called `label` the current one."""
        return self.tree.goto(label)

    # ---- passes

    def apply(self, pipeline: Pipeline, name: str = "") -> Iterator[Outcome]:
        """Run the passes of `pipeline`; each that changes something makes a state.

        A fixpoint is run round by round, so that its passes make states of their own. A breakpoint
        or an invalid module ends the walk with `Stopped`.
        """
        yield from applying.follow(self, Walk.of(name or str(pipeline), pipeline.passes))

    def run_pass(self, what: Pass) -> Applied | Stopped:
        """Run one pass on the current state."""
        return applying.run_one(self, self.current, recipe_for(self, what))

    def step(self, name: str = "") -> Stepped:
        """Do one rewrite of the pass `name`, or of the pass stepped last.

        The states between the rewrites are `s2+1`, `s2+2` ...
        """
        return stepping.step(self, name)

    def effects(self, names: Sequence[tuple[str, str]], try_out: bool) -> tuple[Effect, ...]:
        """Return the passes `(name, summary)`, with their rewrites here if `try_out`."""
        if not try_out:
            return tuple(Effect(name, summary, None) for name, summary in names)
        return tuple(self._effect(name, summary) for name, summary in names)

    def _effect(self, name: str, summary: str) -> Effect:
        """Try a pass; one that cannot run costs its own row, not the list."""
        (what,) = Pipeline.parse(name).passes
        try:
            fired = recipe_for(self, what).run(self.current.module).rules
        except HloError as fault:
            return Effect(name, summary, 0, failure=fault.message)
        except InternalError as fault:
            self.last_fault = traceback.format_exc()
            return Effect(name, summary, 0, failure=str(fault).partition("\n")[0])
        rules = Counter(by.partition("/")[2] for by in fired if "/" in by)
        return Effect(name, summary, len(fired), tuple(sorted(rules.items())))

    # ---- questions

    def find_computation(self, name: str) -> Computation:
        """Return the computation called `name` (a leading @ or % is allowed)."""
        wanted = name.lstrip("@%")
        for computation in self.current.module.computations:
            if computation.name == wanted:
                return computation
        names = [c.name for c in self.current.module.computations]
        raise HloError(f"no computation named {wanted!r}", notes=near_name_notes(wanted, names))

    def diff(self, before: str = "prev", after: str = "$") -> ModuleDiff:
        """Compare two states by instruction identity."""
        old, new = self.state(before), self.state(after)
        events = tuple(event for state in path(old, new) for event in state.events)
        return self.diff_of(old, new, events)

    def why(self, name: str) -> Origin:
        """Return where an instruction came from and what was done to it, from s0 on."""
        return trace(self.lineage(), name.removeprefix("%"))

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
        self.inputs.use_file(path, self.current.module)
        return f"inputs from {path}"

    def use_seed(self, seed: int) -> str:
        """Take random inputs from `seed` for later runs; returns a description."""
        self.inputs.clear()
        self.inputs.seed = seed
        return f"random inputs, seed {seed}"

    def run(self, *, interpret: bool = False, print_all: bool = False) -> RunResult:
        """Run the current module as it stands and compare with the loaded one in the evaluator.

        Args:
            interpret: run it in the evaluator too, instead of compiling it.
            print_all: show all elements of the results.
        """
        return running.run(self, interpret=interpret, print_all=print_all)

    def verify(self, before: str = "s0", after: str = "$") -> Verified:
        """Run two states on 24 sets of inputs and compare; a difference is traced to a rewrite."""
        return verifying.verify(self, before, after)

    def close(self) -> None:
        """End the child process."""
        self.child.close()
