"""Unique names by XLA's rule (format reference, 3.1)."""

from __future__ import annotations

from dataclasses import field
from functools import lru_cache

from hloc.dtypes import DTYPES
from hloc.lazy_dataclass import dataclass

KEYWORDS = frozenset(
    (
        "true", "false", "inf", "nan", "HloModule", "ENTRY", "ROOT", "FileNames", "FunctionNames",
        "FileLocations", "StackFrames", "maximal", "replicated", "manual", "unknown", "unreduced",
        "last_tile_dim_replicate", "shard_as", "shard_like",
    )
)  # fmt: skip
"""Keywords, which are names only with `%`, or with `:` in a signature."""


def is_other_token(name: str) -> bool:
    """True if the lexer reads `name` as a keyword or an element type unless `%` is before it."""
    return name in KEYWORDS or name in DTYPES


@lru_cache(1 << 14)
def _parts(name: str) -> tuple[str, int, str]:
    """Return stem and number of `name`, and the name without leading zeros of the number.

    Passes ask for the same names again: `param_0`, `add.5` of each copy of it.
    """
    stem, _, digits = name.rpartition(".")
    if stem and digits.isdigit() and digits.isascii() and len(digits) < 19:
        number = int(digits)
        return stem, number, name if digits[0] != "0" else f"{stem}.{number}"
    return name, 0, name


@dataclass(slots=True)
class _Taken:
    """The numbers of a stem that are taken: all those below one, and some beyond."""

    below: int
    beyond: set[int]


@dataclass(slots=True)
class NameUniquer:
    """Makes names unique; a clash gets the smallest free number after a dot.

    The numbers of a stem are taken up to one that is counted, and few beyond it: only these are
    kept, since a large module has tens of thousands of names.
    """

    _taken: dict[str, _Taken] = field(default_factory=dict)  # by stem

    def unique(self, name: str) -> str:
        """Return `name`, or `root.N` if it is taken.

        `add.5` is number 5 of `add`, and a name without a number is number 0.
        """
        stem, number, plain = _parts(name)
        taken = self._taken.get(stem)
        if taken is None:
            self._taken[stem] = _Taken(0, {number})
            return plain
        free, beyond = taken.below, taken.beyond
        if number >= free and number not in beyond:
            beyond.add(number)
            return plain
        while free in beyond:
            beyond.remove(free)
            free += 1
        taken.below = free + 1
        return f"{stem}.{free}"

    def copy(self) -> NameUniquer:
        """Return an independent copy."""
        taken = {stem: _Taken(t.below, set(t.beyond)) for stem, t in self._taken.items()}
        return NameUniquer(taken)

    def has_keyword(self) -> bool:
        """Tell whether some name is a keyword, which is a name only after `%`."""
        return not self._taken.keys().isdisjoint(KEYWORDS)
