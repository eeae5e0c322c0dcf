"""Pending wgmma operations: each is computed as late as a wait for its group allows.

So overwriting an operand in shared memory too early is detected, or gives a wrong result. Accesses
to registers of a pending operation, or to those of a later one without a fence between, are faults,
and so is an operation without a wait: on a device the result is undefined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field
from itertools import chain

from hloc.lazy_dataclass import dataclass
from hloc.ptx.faults import LaneFault
from hloc.ptx.product_registers import Accesses, ProductRegisters
from hloc.ptx.program import Instruction
from hloc.ptx.threads import Threads
from hloc.ptx.value_types import Array


@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """One operation.

    Attributes:
        registers: that it reads or writes.
        shape: of its matrices, as in the opcode.
        finish: computes it.
    """

    instruction: Instruction
    registers: ProductRegisters
    shape: str
    finish: Callable[[Threads], None]


@dataclass(slots=True)
class _Queue:
    """The pending operations of one warpgroup.

    Attributes:
        begun: since the last commit.
        groups: committed, oldest first.
        fenced: there was a fence.
        accessed: registers of products that were accessed since the last fence.
    """

    begun: list[Product] = field(default_factory=list)
    groups: list[list[Product]] = field(default_factory=list)
    fenced: bool = False
    accessed: set[str] = field(default_factory=set)

    def pending(self) -> Iterator[Product]:
        """Yield all operations that are not computed yet."""
        return chain(*self.groups, self.begun)


class Products:
    """The pending operations of all warpgroups, by the first lane of each."""

    def __init__(self) -> None:
        self._queues: dict[int, _Queue] = {}

    def _queue(self, first: int) -> _Queue:
        return self._queues.setdefault(first, _Queue())

    def fence(self, group: Array) -> None:
        """Order earlier accesses to registers before later products."""
        queue = self._queue(int(group[0]))
        queue.fenced = True
        queue.accessed.clear()

    def begin(self, group: Array, product: Product) -> None:
        """Append an operation to those that a warpgroup issued before.

        Raises:
            LaneFault: its registers are not ready.
        """
        queue = self._queue(int(group[0]))
        if not queue.fenced:
            raise LaneFault("no wgmma.fence before the first product of the warpgroup", 0)
        late = queue.accessed & product.registers.all
        if late:
            raise LaneFault(f"no wgmma.fence between the access to {_name(late)} and this", 0)
        for other in queue.pending():
            self._check_order(other, product)
        queue.begun.append(product)

    def _check_order(self, first: Product, second: Product) -> None:
        """Fault if a product uses registers of a pending one; sums may continue in one shape."""
        shared = first.registers.sums & second.registers.left
        shared |= first.registers.left & second.registers.sums
        if first.shape != second.shape:
            shared |= first.registers.sums & second.registers.sums
        if shared:
            raise LaneFault(f"{_name(shared)} belongs to a product without a wait before this", 0)

    def check(self, first: int, accesses: Accesses) -> tuple[int, str] | None:
        """Record accesses by lanes of the warpgroup from lane `first` on.

        Returns:
            The position of the first one that comes before the wait, and what is wrong with it.
        """
        queue = self._queue(first)
        pending = frozenset().union(*(product.registers.all for product in queue.pending()))
        for position, names in accesses:
            early = names & pending
            if early:
                return position, f"{_name(early)} is accessed before the wait for its product"
            queue.accessed |= names
        return None

    def commit(self, group: Array) -> None:
        """Close the open group of a warpgroup."""
        queue = self._queue(int(group[0]))
        queue.groups.append(queue.begun)
        queue.begun = []

    def wait(self, threads: Threads, group: Array, allowed: int) -> None:
        """Compute all closed groups of a warpgroup but the last `allowed`."""
        groups = self._queue(int(group[0])).groups
        while len(groups) > allowed:
            for product in groups.pop(0):
                product.finish(threads)

    def forgotten(self) -> tuple[int, Instruction] | None:
        """Return the first lane and the instruction of an operation without a wait."""
        for lane, queue in self._queues.items():
            for product in queue.pending():
                return lane, product.instruction
        return None


def _name(storages: set[str] | frozenset[str]) -> str:
    """Return the name in the text of one of some storages."""
    return min(storages).split(":", 1)[1]
