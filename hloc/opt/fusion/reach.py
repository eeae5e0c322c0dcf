"""Dependencies between regions, so that merging never creates a cycle.

A region is a set of instructions that will become one. Only regions of two or more
have a number. For every instruction the regions it depends on are a bit set, and likewise for
regions among themselves; the dependents of a single instruction are searched in the order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field

from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass


@dataclass(eq=False, slots=True)
class Reach:
    """Dependencies between the regions of one computation; a region is named by its members.

    Cost: a query about regions of two or more is O(operands); one about a single
    instruction scans all instructions visited after it.

    Attributes:
        order: the instructions of the computation, operands first.
    """

    order: Sequence[Instruction]
    _visited: int = 0
    _position: dict[Instruction, int] = field(default_factory=dict)
    _number: dict[Instruction, int] = field(default_factory=dict)
    _mask: dict[Instruction, int] = field(default_factory=dict)
    _above: list[int] = field(default_factory=list)
    """Region -> the regions that depend on it, and itself."""

    _below: list[int] = field(default_factory=list)
    """Region -> the regions that it depends on."""

    def visit(self, inst: Instruction) -> None:
        """Record the dependencies of `inst`, the next in order."""
        self._position[inst] = self._visited
        self._mask[inst] = self._mask_of(_before(inst))
        self._visited += 1

    def comes_back(self, members: Sequence[Instruction], inst: Instruction) -> bool:
        """True if a path leads out of `members` to `inst`; its operands among them do not count."""
        inside = set(members)
        outside = [p for p in _before(inst) if p not in inside]
        plain, above = self._after(members)
        return bool(self._mask_of(outside) & above) or any(p in plain for p in outside)

    def independent(self, some: Sequence[Instruction], others: Sequence[Instruction]) -> bool:
        """True if neither region depends on the other."""
        return not (self._leads_to(some, others) or self._leads_to(others, some))

    def unite(self, members: Sequence[Instruction]) -> None:
        """Make `members`, some of which may be regions already, one region."""
        inside = set(members)
        numbers = list(dict.fromkeys(n for m in members if (n := self._number.get(m)) is not None))
        if not numbers:
            numbers = [len(self._above)]
            self._above.append(1 << numbers[0])
            self._below.append(0)
        own = above = below = 0
        for number in numbers:
            own |= 1 << number
            above |= self._above[number]
            below |= self._below[number]
        new_above = new_below = 0
        for member in members:
            if member not in self._number:
                plain, later = self._after([member])
                new_above |= later
                new_below |= self._mask_of(p for p in _before(member) if p not in inside)
                for inst in plain:
                    self._mask[inst] |= 1 << numbers[0]
        self._number.update(dict.fromkeys(members, numbers[0]))
        above |= self._all_above(new_above & ~above)
        below |= self._all_below(new_below & ~below) & ~own
        self._connect(own, above, below)

    def _all_below(self, mask: int) -> int:
        """Return the regions of `mask` and all they depend on; the latest know most of the rest."""
        found = 0
        while mask:
            number = mask.bit_length() - 1
            found |= self._below[number] | 1 << number
            mask &= ~found
        return found

    def _all_above(self, mask: int) -> int:
        """Return the regions of `mask` and all that depend on them."""
        found = 0
        while mask:
            number = (mask & -mask).bit_length() - 1
            found |= self._above[number]
            mask &= ~found
        return found

    def _connect(self, own: int, above: int, below: int) -> None:
        """Record that all of `above` depend on `own`, and those on all of `below`."""
        lower = below | own
        for number in _bits(above):
            self._below[number] |= lower
        for number in _bits(below):
            self._above[number] |= above
        for number in _bits(own):
            self._above[number], self._below[number] = above | own, below

    def _mask_of(self, instructions: Iterable[Instruction]) -> int:
        mask = 0
        for inst in instructions:
            number = self._number.get(inst)
            mask |= self._mask.get(inst, 0) if number is None else self._below[number] | 1 << number
        return mask

    def _after(self, members: Sequence[Instruction]) -> tuple[set[Instruction], int]:
        """Return the single instructions and the regions that depend on a region.

        Dependents through a region are not listed: they have its bit.
        """
        number = self._number.get(members[0])
        if number is not None:
            return set(), self._above[number]
        found, above = {members[0]}, 0
        for at in range(self._position[members[0]] + 1, self._visited):
            inst = self.order[at]
            if any(p in found for p in _before(inst)):
                number = self._number.get(inst)
                if number is None:
                    found.add(inst)
                else:
                    above |= self._above[number]
        return found, above

    def _leads_to(self, some: Sequence[Instruction], others: Sequence[Instruction]) -> bool:
        plain, above = self._after(some)
        number = self._number.get(others[0])
        if number is not None:
            return bool(above >> number & 1)
        return others[0] in plain or bool(self._mask[others[0]] & above)


def _before(inst: Instruction) -> Iterator[Instruction]:
    yield from inst.operands
    yield from inst.control_predecessors


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
