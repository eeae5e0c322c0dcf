"""The change log: every change of a module, in order, with the rewrite that made it.

Undo, single steps, diffs by identity, provenance and bisection all read this one list.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeAlias

from hloc.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from hloc.ir.computation import Computation
    from hloc.ir.instruction import Instruction


@dataclass(frozen=True, slots=True)
class Created:
    """An instruction was added."""

    inst: Instruction
    computation: Computation
    by: str


@dataclass(frozen=True, slots=True)
class Replaced:
    """All uses of `old`, and its role as root, were replaced by `new`."""

    old: Instruction
    new: Instruction
    by: str


@dataclass(frozen=True, slots=True)
class OperandReplaced:
    """An instruction that read `old` reads `new` instead, as the operands numbered `places`.

    Part of `Replaced`. It holds no list of all operands: the tuple of the results of a large module
    has thousands, and each of them is replaced by several passes.
    """

    user: Instruction
    places: tuple[int, ...]
    old: Instruction
    new: Instruction
    by: str


@dataclass(frozen=True, slots=True)
class Removed:
    """An instruction without users was removed."""

    inst: Instruction
    computation: Computation
    by: str


@dataclass(frozen=True, slots=True)
class Modified:
    """One field of an instruction or computation changed from `before` to `after`."""

    target: Instruction | Computation
    field: str
    before: Any
    after: Any
    by: str


@dataclass(frozen=True, slots=True)
class ComputationAdded:
    """A computation was added to the module."""

    computation: Computation
    by: str


@dataclass(frozen=True, slots=True)
class ComputationRemoved:
    """A computation was removed from the module."""

    computation: Computation
    by: str


Event: TypeAlias = (
    Created
    | Replaced
    | OperandReplaced
    | Removed
    | Modified
    | ComputationAdded
    | ComputationRemoved
)


@dataclass(eq=False, slots=True)
class ChangeLog:
    """Events of one module; `by` names the running pass and rule (`algebraic-simplifier/add-zero`).

    Recording starts when the module is complete, so reading a text leaves no events. The driver
    stops it where nothing can ask for them.
    """

    events: list[Event] = field(default_factory=list)
    by: str = ""
    recording: bool = False

    def record(self, kind: Callable[..., Event], *what: Any) -> None:
        """Append the event `kind(*what, by)` if changes are recorded."""
        if self.recording:
            self.events.append(kind(*what, self.by))

    def acting(self, by: str) -> _Acting:
        """Attribute the events in a `with` block to `by`; restore the previous actor afterwards."""
        return _Acting(self, by)

    def since(self, mark: int) -> tuple[Event, ...]:
        """Return the events after the first `mark` ones."""
        return tuple(self.events[mark:])


class _Acting:
    """The block of `ChangeLog.acting`; a generator would take three times as long."""

    __slots__ = ("_before", "_by", "_log")

    def __init__(self, log: ChangeLog, by: str) -> None:
        self._log, self._by = log, by

    def __enter__(self) -> None:
        self._before, self._log.by = self._log.by, self._by

    def __exit__(self, *fault: object) -> None:
        self._log.by = self._before
