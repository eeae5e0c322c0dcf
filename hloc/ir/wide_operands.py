"""The operands of an instruction that has thousands, while they are replaced one by one."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class WideOperands(Generic[T]):
    """Operands, and the places of each.

    Several passes replace every result of a program, which the tuple of all results reads: to look
    for each among 8,000 takes longer than all else that they do.
    """

    def __init__(self, operands: tuple[T, ...]) -> None:
        self.operands = operands
        self._list = list(operands)
        self._places: dict[T, list[int]] = {}
        for place, operand in enumerate(operands):
            self._places.setdefault(operand, []).append(place)

    def exchanged(self, old: T, new: T) -> tuple[T, ...]:
        """Put `new` in all places of `old`; return the operands."""
        places = self._places.pop(old)
        for place in places:
            self._list[place] = new
        self._places.setdefault(new, []).extend(places)
        self.operands = tuple(self._list)
        return self.operands
