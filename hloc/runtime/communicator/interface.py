"""What a run of several devices asks of an engine.

An engine makes one `Communicator` per program and set of memory; it serves one run at a time. The
data of each exchange (`hloc/codegen/plan/exchange.py`) is all that an engine knows of a collective.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from hloc.codegen.plan.exchange import Exchange
from hloc.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ExchangeProgram:
    """What an engine needs to know of a program.

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
        """How many devices the program runs on."""
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
        """Return the address of what `DEVICE_SLOT` of the device's table must point to."""

    def run(self, entry: int, tables: Sequence[DeviceTable]) -> None:
        """Call `entry` with the table of each device of this process, at the same time.

        Returns when all have ended. A stop flag that is set, by `stop` or by another thread,
        ends the run without an error of the engine.

        Raises:
            HloError: a deadlock, an exchange that cannot be done, a device elsewhere that failed.
        """

    def stop(self) -> None:
        """End the run under way: no device waits any longer, and all stop flags are set."""

    def seconds(self) -> tuple[tuple[float, ...], ...]:
        """Return the time in each exchange so far, waiting included, by device of this process."""


Engine: TypeAlias = Callable[[ExchangeProgram], Communicator]
"""Makes the communicator of a program."""
