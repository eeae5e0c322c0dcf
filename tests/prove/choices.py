"""Enumerates what a function can build: it picks, and every combination of picks is tried."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


class DoesNotFitError(Exception):
    """These picks lead nowhere; all that begin with them are left out."""


class Choices:
    """The picks of one run, which the next run changes from the last one on."""

    def __init__(self) -> None:
        self._path: list[tuple[int, int]] = []  # which option, of how many
        self._at = 0

    def pick(self, options: Sequence[T]) -> T:
        """Return the option whose turn it is; none at all does not fit."""
        if not options:
            raise DoesNotFitError
        if self._at == len(self._path):
            self._path.append((0, len(options)))
        chosen, _ = self._path[self._at]
        self._at += 1
        return options[chosen]

    def next(self) -> bool:
        """Go on to the next combination; False after the last."""
        del self._path[self._at :]
        while self._path:
            chosen, count = self._path.pop()
            if chosen + 1 < count:
                self._path.append((chosen + 1, count))
                break
        self._at = 0
        return bool(self._path)


def every(build: Callable[[Choices], T]) -> Iterator[T | None]:
    """Yield what `build` makes of each combination of picks, None where one does not fit."""
    choices = Choices()
    more = True
    while more:
        try:
            made: T | None = build(choices)
        except DoesNotFitError:
            made = None
        yield made
        more = choices.next()
