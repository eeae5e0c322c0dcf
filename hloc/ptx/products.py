"""Warpgroup products in flight: each is computed as late as a wait for its group allows.

Overwriting an operand or reading a sum too early is therefore found, or gives a wrong result. A
product without a wait is a fault, since a device leaves its sums undefined.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from itertools import chain
from typing import TypeAlias

from hloc.lazy_dataclass import dataclass
from hloc.ptx.program import Instruction
from hloc.ptx.threads import Threads
from hloc.ptx.value_types import Array

Product: TypeAlias = tuple[Instruction, Callable[[Threads], None]]
"""What asked for it, and what makes it."""


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
            for _, make in groups.pop(0):
                make(threads)

    def forgotten(self) -> tuple[int, Instruction] | None:
        """Return the first lane and the instruction of a product without a wait."""
        for lane, queue in self._queues.items():
            for instruction, _ in chain(*queue.groups, queue.begun):
                return lane, instruction
        return None
