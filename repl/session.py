"""A session of the REPL: the history of a module, and the state of the commands.

It is independent of the terminal. The modules that act on a session (`applying`, `stepping`,
`running` ...) return frozen data, which `render.py` renders and tests inspect. A state is never
changed; a pass runs on a clone, whose change log records what it did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from hloc import driver
from hloc.analysis.diff.module_diff import ModuleDiff, diff_snapshots
from hloc.errors import HloError
from hloc.ir.computation import Computation
from hloc.ir.events import Event
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import all_instructions
from hloc.ir.verifier import check
from hloc.lazy_dataclass import dataclass
from hloc.near_names import near_name_notes
from hloc.report.progress import Progress
from hloc.report.run_inputs import Inputs
from hloc.report.source_input import read_module
from repl.breakpoints import Breakpoints
from repl.child import Child
from repl.history import History
from repl.recipe import Recipe
from repl.settings import Settings
from repl.state import State, lineage_of, snapshot_of
from repl.walk import Pending, Stepping, Walk

if TYPE_CHECKING:
    from repl.kernels.steps import KernelSteps

_MOST_FAULTS = 8


@dataclass(slots=True)
class Session:
    """The fields of a session, kept consistent.

    Attributes:
        tree: the states.
        inputs: the inputs of runs.
        watched: names of instructions whose values every run shows.
        disabled_rules: rules that may not fire.
        breaks: breakpoints.
        walks: by state, the position in the pipeline of `next`.
        starts: by last state of a command, the state at which it began.
        stepping: the pass that is being stepped through.
        pending: what `continue` resumes after it.
        last_step: the pass that was stepped last.
        last_fault: traceback of the last pass that failed.
        plugins: files that were loaded, with the time of their last change.
        child: the process in which compiled code runs.
        commands: the commands so far, for session files.
        lines: all successful lines, for exports.
        source_path: the file that was loaded, "" for a pasted module.
        highest_uid: the largest uid of all states.
        autosave_path: where the commands are saved after each of them, "" for nowhere.
        sourcing: the nested scripts that are running.
        kernel: the kernel that is being stepped through.
        seconds: the time of the last run of each state.
        spare: a state with a copy of its module for the next pass, None if there is none.
        progress: the progress line of a long command on a terminal.
    """

    tree: History = field(default_factory=History)
    settings: Settings = field(default_factory=Settings)
    inputs: Inputs = field(default_factory=Inputs)
    watched: list[str] = field(default_factory=list)
    disabled_rules: dict[str, None] = field(default_factory=dict)
    breaks: Breakpoints = field(default_factory=Breakpoints)
    walks: dict[State, Walk] = field(default_factory=dict)
    starts: dict[State, State] = field(default_factory=dict)
    stepping: Stepping | None = None
    pending: Pending | None = None
    last_step: str = ""
    last_fault: str = ""
    plugins: dict[str, float] = field(default_factory=dict)
    child: Child = field(default_factory=Child)
    commands: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    source_path: str = ""
    highest_uid: int = 0
    autosave_path: str = ""
    sourcing: int = 0
    kernel: KernelSteps | None = None
    seconds: dict[State, float] = field(default_factory=dict)
    spare: tuple[State, Module] | None = None
    progress: Progress = field(default_factory=Progress)

    def __post_init__(self) -> None:
        self.child.plugins = self.plugins

    def close(self) -> None:
        """End the child process."""
        self.child.close()

    # ---- load

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
        self.starts.clear()
        self.seconds.clear()
        self.stepping = self.pending = self.kernel = self.spare = None
        self.last_step = self.source_path = ""
        self.highest_uid = module.new_uid()
        return self.tree.enter(State(0, None, "load", module))

    # ---- where we are

    @property
    def states(self) -> list[State]:
        """The numbered states, in the order they were made."""
        return self.tree.states

    @property
    def current(self) -> State:
        """The current state; raises HloError before anything is loaded."""
        return self.tree.current

    @property
    def origin(self) -> State:
        """The loaded module; raises HloError before anything is loaded."""
        return self.lineage()[0]

    @property
    def is_loaded(self) -> bool:
        return not self.tree.is_empty

    def state(self, label: str) -> State:
        """Return the state called `s3`, `s3+1`, `prev` (parent), `$` (current), or by a mark."""
        return self.tree.find(label)

    def lineage(self) -> tuple[State, ...]:
        """Return the states from the loaded module to the current one."""
        return lineage_of(self.current)

    def add_state(
        self,
        parent: State,
        how: str,
        module: Module,
        events: Sequence[Event],
        *,
        rewrites: tuple[tuple[str, int], ...] = (),
        wall_ms: float = 0.0,
        recipe: Recipe | None = None,
        base: State | None = None,
        step: int = 0,
    ) -> State:
        """Verify a module derived from `parent`'s, and enter it as the current state."""
        self.highest_uid = max(self.highest_uid, module.new_uid())
        faults = tuple(diagnostic.message for diagnostic in check(module)[:_MOST_FAULTS])
        number = len(self.states) if base is None else parent.number
        return self.tree.enter(
            State(
                number, parent, how, module, tuple(events), rewrites, wall_ms, recipe, faults,
                base, step,
            )
        )  # fmt: skip

    def find(self, name: str) -> Instruction:
        """Return the instruction called `name` (a leading % is allowed) in the current state."""
        wanted = name.removeprefix("%")
        for inst in all_instructions(self.current.module):
            if inst.name == wanted:
                return inst
        names = [inst.name for inst in all_instructions(self.current.module)][:20000]
        raise HloError(
            f"no instruction named {wanted!r} in {self.current.label}",
            notes=near_name_notes(wanted, names),
        )

    def find_computation(self, name: str) -> Computation:
        """Return the computation called `name` (a leading @ or % is allowed)."""
        wanted = name.lstrip("@%")
        computations = self.current.module.computations
        for computation in computations:
            if computation.name == wanted:
                return computation
        names = [computation.name for computation in computations]
        raise HloError(f"no computation named {wanted!r}", notes=near_name_notes(wanted, names))

    def diff_of(self, old: State, new: State, events: Sequence[Event]) -> ModuleDiff:
        """Return the differences in `new`, by instruction identity."""
        return diff_snapshots(snapshot_of(old), snapshot_of(new), events)
