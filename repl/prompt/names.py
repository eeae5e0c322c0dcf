"""Names for completion, sorted once per state: a prefix is found by bisection.

Lists are built on a thread of their own when a state is entered. A keystroke only reads lists that
are ready; it never walks a module.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from itertools import islice
from typing import TYPE_CHECKING

from hloc.ir.module import Module
from hloc.ir.traversal import all_instructions
from hloc.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from repl.state import State

_KEPT = 16
_SMALL = 4000
"""In larger modules passes are not tried while the user types."""

Entry = tuple[str, str]
"""A name and its description."""

TryOut = Callable[[str], int | None]
"""Returns how many rewrites a pass would do, None if unknown."""


class PrefixIndex:
    """Names by prefix."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._entries = sorted(entries)

    def __len__(self) -> int:
        return len(self._entries)

    def starting_with(self, prefix: str, most: int) -> Iterator[Entry]:
        """Yield the entries whose name begins with `prefix`, in order, up to the limit."""
        first = bisect_left(self._entries, (prefix, ""))
        for entry in islice(self._entries, first, first + most):
            if not entry[0].startswith(prefix):
                return
            yield entry


NOTHING = PrefixIndex(())


@dataclass(slots=True)
class StateNames:
    """The names of one state known so far.

    Attributes:
        effects: number of rewrites by pass that would apply here.
    """

    instructions: PrefixIndex = NOTHING
    computations: PrefixIndex = NOTHING
    effects: dict[str, int] = field(default_factory=dict)
    ready: threading.Event = field(default_factory=threading.Event)
    tried: threading.Event = field(default_factory=threading.Event)


def names_of(module: Module) -> tuple[PrefixIndex, PrefixIndex]:
    """Return the names of instructions, with shape and opcode, and of computations."""
    instructions = PrefixIndex(
        (inst.name, f"{inst.shape.text_without_layout} {inst.opcode.name}")
        for inst in all_instructions(module)
    )
    computations = PrefixIndex((c.name, f"{len(c)} instructions") for c in module.computations)
    return instructions, computations


class NameCache:
    """The names of the latest states, made in the background."""

    def __init__(self) -> None:
        self._states: dict[State, StateNames] = {}
        self._latest: State | None = None

    def prepare(self, state: State) -> StateNames:
        """Start listing the names of `state`, unless already started."""
        self._latest = state
        found = self._states.get(state)
        if found is None:
            while len(self._states) >= _KEPT:
                del self._states[next(iter(self._states))]
            found = self._states[state] = StateNames()
            thread = threading.Thread(
                target=_list_names, args=(state.module, found), name="hloc-names", daemon=True
            )
            thread.start()
        return found

    def known(self, state: State) -> StateNames | None:
        """Return the names of `state` if they were requested; never waits."""
        return self._states.get(state)

    def try_passes(self, state: State, names: Sequence[str], try_out: TryOut) -> None:
        """Start counting the rewrites of each pass on `state`, unless already started."""
        found = self.prepare(state)
        if found.tried.is_set() or state.instructions > _SMALL:
            return
        found.tried.set()

        def run() -> None:
            for name in names:
                if self._latest is not state:
                    return
                count = try_out(name)
                if count is not None:
                    found.effects[name] = count

        threading.Thread(target=run, name="hloc-effects", daemon=True).start()


def _list_names(module: Module, found: StateNames) -> None:
    found.instructions, found.computations = names_of(module)
    found.ready.set()
