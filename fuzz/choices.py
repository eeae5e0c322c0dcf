"""Where a drawn module takes its decisions from.

A `Draft` asks for small decisions one at a time. Tests let hypothesis decide, so that failures
shrink (`tests/differential/drawn.py`); the fuzzer decides by a seed.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")


class Choices(Protocol):
    """Takes decisions; all of a module's structure follows from them."""

    def pick(self, options: Sequence[T]) -> T:
        """Return one of `options`."""

    def integer(self, low: int, high: int) -> int:
        """Return a number from `low` to `high`, both included."""

    def flag(self) -> bool:
        """Return either."""

    def order(self, count: int) -> tuple[int, ...]:
        """Return the numbers below `count` in any order."""

    def some(self, options: Sequence[T], most: int) -> list[T]:
        """Return one to `most` different options, in any order."""


class Seeded:
    """Decisions that follow from a seed; the first options of a list are more likely than others.

    Lists begin with what is simple and common, so common things meet rare ones.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def pick(self, options: Sequence[T]) -> T:
        first = len(options) > 4 and self.random.random() < 0.3
        return options[self.random.randrange(4 if first else len(options))]

    def integer(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def flag(self) -> bool:
        return self.random.random() < 0.5

    def order(self, count: int) -> tuple[int, ...]:
        return tuple(self.random.sample(range(count), count))

    def some(self, options: Sequence[T], most: int) -> list[T]:
        return self.random.sample(list(options), self.random.randint(1, min(most, len(options))))
