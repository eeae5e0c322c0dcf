"""Dependencies between regions, so that merging never creates a cycle.

A region is a set of instructions that will become one. A question about two of them searches from
the later one through operands, and leaves out what ends before the earlier one begins: regions are
merged only if they are near each other, so a search ends after a bounded part of the order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass


@dataclass(eq=False, slots=True)
class _United:
    """Instructions that will be one; `end` is the position of the last of them."""

    members: tuple[Instruction, ...]
    end: int


@dataclass(eq=False, slots=True)
class Reach:
    """Dependencies between the regions of one computation; a region is named by its members.

    Cost: a question takes O(operands of the instructions between the two regions).
    """

    _positions: dict[Instruction, int] = field(default_factory=dict)
    _united: dict[Instruction, _United] = field(default_factory=dict)

    def visit(self, inst: Instruction) -> None:
        """Record the position of `inst`, which comes after its operands."""
        self._positions[inst] = len(self._positions)

    def comes_back(self, members: Sequence[Instruction], inst: Instruction) -> bool:
        """True if a path leads out of `members` to `inst`; its operands among them do not count."""
        inside = set(members)
        return self._depend([p for p in _before(inst) if p not in inside], members)

    def independent(self, some: Sequence[Instruction], others: Sequence[Instruction]) -> bool:
        """True if neither region depends on the other."""
        return not (self._depend(some, others) or self._depend(others, some))

    def unite(self, members: Sequence[Instruction]) -> None:
        """Make `members`, some of which may be regions already, one region."""
        united = _United(tuple(members), max([self._positions[member] for member in members]))
        self._united.update(dict.fromkeys(members, united))

    def _depend(self, users: Iterable[Instruction], members: Sequence[Instruction]) -> bool:
        """True if one of `users`, or what it depends on, is among `members`."""
        start = min([self._positions[member] for member in members])
        inside, waiting = set(members), list(users)
        seen: set[Instruction | _United] = set()
        while waiting:
            inst = waiting.pop()
            if inst in inside:
                return True
            united = self._united.get(inst)
            found, end = (united, united.end) if united else (inst, self._positions[inst])
            if end > start and found not in seen:
                seen.add(found)
                for member in united.members if united else (inst,):
                    waiting += _before(member)
        return False


def _before(inst: Instruction) -> tuple[Instruction, ...]:
    return (*inst.operands, *inst.control_predecessors)
