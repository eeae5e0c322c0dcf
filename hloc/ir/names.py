"""Unique names by XLA's rule (format reference, 3.1)."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class _Root:
    used: set[int] = field(default_factory=set)
    next: int = 0


@dataclass(slots=True)
class NameUniquer:
    """Hands out names; a clash gets the smallest free number after a dot."""

    _roots: dict[str, _Root] = field(default_factory=dict)

    def unique(self, name: str) -> str:
        """Return `name`, or `root.N` if it was handed out before."""
        stem, number, numbered = _split(name)
        root = self._roots.get(stem)
        if root is None:
            root = self._roots[stem] = _Root()
        if number in root.used:
            number = root.next
            while number in root.used:
                number += 1
            root.next = number + 1
            numbered = True
        root.used.add(number)
        return f"{stem}.{number}" if numbered else stem


def _split(name: str) -> tuple[str, int, bool]:
    """Split `add.5` into (`add`, 5, True); a name without a number counts as number 0."""
    stem, _, digits = name.rpartition(".")
    if stem and digits.isdigit() and digits.isascii() and len(digits) < 19:
        return stem, int(digits), True
    return name, 0, False
