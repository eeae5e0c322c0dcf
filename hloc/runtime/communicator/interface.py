"""The interface of engines, which exchange data between the devices of a run.

An engine creates one `Communicator` per program and set of memory, for one run at a time. An engine
knows nothing of a collective but its exchange (`hloc/codegen/plan/exchange.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from hloc.codegen.plan.exchange import Exchange
from hloc.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ExchangeProgram:
    """The exchanges of a program.

    Attributes:
        combiners: addresses of the compiled reductions by symbol (`Combiner.symbol`).
        replicas, partitions: the devices; flattened id = replica * partitions + partition.
    """

    exchanges: tuple[Exchange, ...]
    combiners: Mapping[str, int]
    replicas: int
    partitions: int

    @property
    def devices(self) -> int:
        """The number of devices of the program."""
        return self.replicas * self.partitions


@dataclass(frozen=True, slots=True)
class DeviceTable:
    """One device of a run: the address of its pointer table, and of its `i32` stop flag."""

    table: int
    stop: int


class Communicator(Protocol):
    """The devices of one program that run in this process."""

    @property
    def devices(self) -> tuple[int, ...]:
        """Flattened ids of the devices in this process, ascending."""

    def state(self, device: int) -> int:
        """Return the address of the device's state, for `DEVICE_SLOT` of its table."""

    def run(self, entry: int, tables: Sequence[DeviceTable]) -> None:
        """Call `entry` with the table of each device of this process, concurrently.

        Returns when all have ended. A stop flag that is set, by `stop` or by another thread,
        ends the run without an error of the engine.

        Raises:
            HloError: a deadlock, an exchange that failed, a device elsewhere that failed.
        """

    def stop(self) -> None:
        """End the current run: end all waits, and set all stop flags."""

    def seconds(self) -> tuple[tuple[float, ...], ...]:
        """Return the time in each exchange so far, waiting included, by device of this process."""


Engine: TypeAlias = Callable[[ExchangeProgram], Communicator]
"""Creates the communicator of a program."""
