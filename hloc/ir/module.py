"""A module: computations, one of them the entry, and the header."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any, TypeVar

from hloc.ir.attributes import ModuleConfig, StackFrames
from hloc.ir.computation import Computation
from hloc.ir.events import ChangeLog, ComputationAdded, ComputationRemoved, Modified
from hloc.ir.module_tools import ModuleTools
from hloc.ir.names import NameUniquer
from hloc.lazy_dataclass import dataclass
from hloc.source import SourceFile

R = TypeVar("R")


@dataclass(eq=False, slots=True)
class Module(ModuleTools):
    """Computations in text order; called ones come before their callers.

    Attributes:
        config: the attributes of the `HloModule` line.
        stack_frames: the tables that `stack_frame_id` of metadata points into.
        log: the changes of the module since it was read.
        source: the text it came from, for messages.
        version: incremented by every change of the module or of a computation.
        removals: how many of these changes removed an instruction that called no computation and
            waited for no other instruction.
        opcodes: number of instructions of each opcode in use, uncalled
            computations included.
        family: the same object in all copies of a module: equal uids there mean the same
            instruction.
    """

    name: str
    config: ModuleConfig = field(default_factory=ModuleConfig)
    stack_frames: StackFrames = field(default_factory=StackFrames)
    source: SourceFile | None = None
    log: ChangeLog = field(default_factory=ChangeLog)
    instruction_names: NameUniquer = field(default_factory=NameUniquer)
    computation_names: NameUniquer = field(default_factory=NameUniquer)
    version: int = 0
    removals: int = 0
    opcodes: dict[str, int] = field(default_factory=dict)
    family: object = field(default_factory=object)
    _entry: Computation | None = None
    _computations: dict[int, Computation] = field(default_factory=dict)
    _next_uid: int = 0
    _derived: dict[Callable[[Module], Any], tuple[int, Any]] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"module {self.name} ({len(self._computations)} computations)"

    def __str__(self) -> str:
        return self.to_text(style="short", large_constants=True)

    # ---- reading

    @property
    def entry(self) -> Computation:
        """The computation that runs when the module is executed."""
        assert self._entry is not None, "module has no entry yet"
        return self._entry

    @property
    def computations(self) -> tuple[Computation, ...]:
        """All computations, in the order they were added (a snapshot)."""
        return tuple(self._computations.values())

    @property
    def instruction_count(self) -> int:
        return self.derived(_instruction_count)

    def derived(self, analyse: Callable[[Module], R]) -> R:
        """Return `analyse(self)`, cached until the next change; the result must not be changed.

        Passes that change nothing ask for the same few facts again.
        """
        found = self._derived.get(analyse)
        if found is None or found[0] != self.version:
            found = self._derived[analyse] = (self.version, analyse(self))
        result: R = found[1]
        return result

    def to_text(
        self,
        style: str = "default",
        *,
        large_constants: bool | None = None,
        tuple_style: str = "full",
    ) -> str:
        """Return the module as HLO text.

        Args:
            style: `default`, `short` or `canonical`, XLA's print options of these names.
            large_constants: print constants of more than 10 elements in full; None takes the
                style's own choice.
            tuple_style: `full` has get-tuple-element instructions; `compact` writes elements of
                tuples as `p#0` where they are used, as XLA does since July 2026.
        """
        from hloc.ir.printer import print_module

        return print_module(self, style, large_constants=large_constants, tuple_style=tuple_style)

    # ---- changing

    def new_uid(self) -> int:
        """Return an id that no instruction or computation has had."""
        self._next_uid += 1
        return self._next_uid

    def reserve_uids(self, highest: int) -> None:
        """Reserve all ids up to `highest` (used by `clone`)."""
        self._next_uid = max(self._next_uid, highest)

    def add_computation(self, name: str, *, execution_thread: str = "main") -> Computation:
        """Add an empty computation; its name is made unique."""
        computation = Computation(
            self.new_uid(), self.computation_names.unique(name), self, execution_thread
        )
        return self.adopt_computation(computation)

    def adopt_computation(self, computation: Computation) -> Computation:
        """Insert an existing computation with its uid and name."""
        self._computations[computation.uid] = computation
        self.version += 1
        self.log.record(ComputationAdded, computation)
        return computation

    def remove_computation(self, computation: Computation) -> None:
        """Remove an uncalled computation and its instructions."""
        assert not computation.callers
        assert computation is not self._entry
        for inst in computation.instructions:
            self.uncount_opcode(inst.opcode.name)
            for called in inst.called:
                called.callers.pop(inst, None)
        del self._computations[computation.uid]
        self.version += 1
        self.log.record(ComputationRemoved, computation)

    def uncount_opcode(self, name: str) -> None:
        """Update `opcodes` when an instruction is removed (for `Computation`)."""
        left = self.opcodes[name] - 1
        if left:
            self.opcodes[name] = left
        else:
            del self.opcodes[name]

    def set_entry(self, computation: Computation) -> None:
        """Make `computation` the entry."""
        assert computation.uid in self._computations
        self._entry = computation
        self.version += 1

    def set_config(self, config: ModuleConfig) -> None:
        """Replace the header attributes."""
        if config != self.config:
            self.log.record(Modified, self.entry, "config", self.config, config)
            self.config = config
            self.version += 1


def _instruction_count(module: Module) -> int:
    return sum([len(computation) for computation in module.computations])
