"""Pending wgmma operations: each is computed as late as a wait for its group allows.

So overwriting an operand or reading an accumulator too early is detected, or gives a wrong result.
An operation without a wait is a fault, since its accumulators are undefined on a device.
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
"""The instruction, and the function that computes it."""


@dataclass(slots=True)
class _Queue:
    """The pending operations of one warpgroup; `groups` are committed, oldest first."""

    begun: list[Product] = field(default_factory=list)
    groups: list[list[Product]] = field(default_factory=list)


class Products:
    """The pending operations of all warpgroups, by the first lane of each."""

    def __init__(self) -> None:
        self._queues: dict[int, _Queue] = {}

    def _queue(self, group: Array) -> _Queue:
        return self._queues.setdefault(int(group[0]), _Queue())

    def begin(self, group: Array, product: Product) -> None:
        """Append an operation to those that a warpgroup issued before."""
        self._queue(group).begun.append(product)

    def commit(self, group: Array) -> None:
        """Close the open group of a warpgroup."""
        queue = self._queue(group)
        queue.groups.append(queue.begun)
        queue.begun = []

    def wait(self, threads: Threads, group: Array, allowed: int) -> None:
        """Compute all closed groups of a warpgroup but the last `allowed`."""
        groups = self._queue(group).groups
        while len(groups) > allowed:
            for _, make in groups.pop(0):
                make(threads)

    def forgotten(self) -> tuple[int, Instruction] | None:
        """Return the first lane and the instruction of an operation without a wait."""
        for lane, queue in self._queues.items():
            for instruction, _ in chain(*queue.groups, queue.begun):
                return lane, instruction
        return None
