"""Products of warpgroups under way: each is made as late as a wait for its group allows.

So what changes an operand too early, or reads a sum too early, is found or makes a wrong result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from hloc.ptx.threads import Threads
from hloc.ptx.value_types import Array

Product: TypeAlias = Callable[[Threads], None]


@dataclass(slots=True)
class _Queue:
    """What one warpgroup began; `groups` were committed, the oldest first."""

    begun: list[Product] = field(default_factory=list)
    groups: list[list[Product]] = field(default_factory=list)


class Products:
    """The products of all warpgroups, by the first lane of each."""

    def __init__(self) -> None:
        self._queues: dict[int, _Queue] = {}

    def _queue(self, group: Array) -> _Queue:
        return self._queues.setdefault(int(group[0]), _Queue())

    def begin(self, group: Array, product: Product) -> None:
        """Put a product behind those that the lanes of a warpgroup began before."""
        self._queue(group).begun.append(product)

    def commit(self, group: Array) -> None:
        """Close the group of products that a warpgroup began."""
        queue = self._queue(group)
        queue.groups.append(queue.begun)
        queue.begun = []

    def wait(self, threads: Threads, group: Array, allowed: int) -> None:
        """Make the products of all closed groups of a warpgroup but the last `allowed`."""
        groups = self._queue(group).groups
        while len(groups) > allowed:
            for product in groups.pop(0):
                product(threads)
