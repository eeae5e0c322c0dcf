"""Hypothesis decides what a drawn module is, so that failures shrink."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import hypothesis.strategies as st

T = TypeVar("T")


class Drawn:
    """Decisions of a module (`fuzz/choices.py`) that hypothesis draws."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self.draw = draw

    def pick(self, options: Sequence[T]) -> T:
        """Return one of `options`; earlier ones are simpler."""
        found: T = self.draw(st.sampled_from(options))
        return found

    def integer(self, low: int, high: int) -> int:
        return int(self.draw(st.integers(low, high)))

    def flag(self) -> bool:
        return bool(self.draw(st.booleans()))

    def order(self, count: int) -> tuple[int, ...]:
        return tuple(self.draw(st.permutations(range(count))))

    def some(self, options: Sequence[T], most: int) -> list[T]:
        found = st.lists(st.sampled_from(options), min_size=1, max_size=most, unique=True)
        return list(self.draw(found))
