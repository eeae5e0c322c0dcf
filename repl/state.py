"""One node of the history: a module that is never changed again, and how it was reached."""

from __future__ import annotations

from functools import lru_cache

from hloc.analysis.diff.module_lines import Snapshot, snapshot
from hloc.ir.events import Event
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from repl.recipe import Recipe

_KEPT_SNAPSHOTS = 8


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """One node of the history tree.

    Attributes:
        number: `s3` is number 3; s0 is the module as loaded.
        parent: the state it was made from, None for a loaded module.
        how: `load`, the pass that made it, or the edit.
        module: never changed again.
        events: the change log from the parent's module to this one.
        rewrites: number of rewrites, by `pass/rule`.
        recipe: recreates the module from the parent's, None for a load or an edit.
        faults: the errors of the verifier, () if the module is valid.
        base: the state that a pass was begun on, for a state in the middle of that pass.
        step: rewrites of the pass since `base`.
    """

    number: int
    parent: State | None
    how: str
    module: Module
    events: tuple[Event, ...] = ()
    rewrites: tuple[tuple[str, int], ...] = ()
    wall_ms: float = 0.0
    recipe: Recipe | None = None
    faults: tuple[str, ...] = ()
    base: State | None = None
    step: int = 0

    @property
    def label(self) -> str:
        """Its name: `s3`, and `s3+2` two rewrites into a pass that was begun on s3."""
        return f"s{self.number}" if self.base is None else f"{self.base.label}+{self.step}"

    @property
    def is_valid(self) -> bool:
        """True if the verifier accepts the module."""
        return not self.faults

    @property
    def instructions(self) -> int:
        return self.module.instruction_count

    @property
    def rewrite_count(self) -> int:
        return sum(count for _, count in self.rewrites)


def lineage_of(state: State) -> tuple[State, ...]:
    """Return the states from the loaded module to `state`."""
    found = [state]
    while found[-1].parent is not None:
        found.append(found[-1].parent)
    return tuple(reversed(found))


@lru_cache(maxsize=_KEPT_SNAPSHOTS)
def snapshot_of(state: State) -> Snapshot:
    """Return the lines of a state; those of the latest few states are cached."""
    return snapshot(state.module)


def path(old: State, new: State) -> tuple[State, ...]:
    """Return the states after `old` up to `new`, or nothing if `old` is not before `new`."""
    line = lineage_of(new)
    return line[line.index(old) + 1 :] if old in line else ()
