"""The engine `local`: all devices are threads of this process; exchanges run in machine code.

Sums run in the order of the ranks, independent of thread timing, so the same arguments give the
same bits. A deadlock is detected as soon as the last running device has to wait.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Sequence
from typing import Any, TypeAlias

from hloc.codegen.llvm.target import available_cores
from hloc.codegen.plan.exchange import Exchange, Pieces
from hloc.dtypes import DTYPES
from hloc.errors import HloError, UnsupportedError
from hloc.runtime.communicator.faults import deadlock, mismatch, rows_outside
from hloc.runtime.communicator.interface import DeviceTable, ExchangeProgram
from hloc.runtime.communicator.machine.load import machine
from hloc.runtime.communicator.structures import STRUCTURES

_SPINS = 2000
"""Polls of a waiting device before it sleeps, if each device has its own core."""

RendezvousKey: TypeAlias = tuple[str, tuple[int, ...], int | None]
"""Opcode, group and channel: the rendezvous key, as in XLA:CPU."""

_OPCODES = STRUCTURES.enum("Opcode")
_STOP = STRUCTURES.enum("Stop")


class LocalCommunicator:
    """All devices of a program as threads of this process."""

    def __init__(self, program: ExchangeProgram) -> None:
        """Prepare to run `program`.

        Raises:
            UnsupportedError: this system lacks the functions with which threads wait.
        """
        if sys.platform != "linux":
            raise UnsupportedError("programs of several devices run on Linux only")
        self._program = program
        self._machine = machine()
        self._run = self._machine.function("run_devices", 1)
        self._stop = self._machine.function("stop", 2)
        self._kept: list[Any] = []
        count, exchanges = program.devices, program.exchanges
        self._world = STRUCTURES.structure("World")()
        self._states = [STRUCTURES.structure("Device")() for _ in range(count)]
        self._flags = [ctypes.c_int32() for _ in range(count)]
        self._times = [(ctypes.c_int64 * len(exchanges))() for _ in range(count)]
        cores = available_cores()
        world = self._world
        world.devices = count
        world.states = self._words([ctypes.addressof(state) for state in self._states])
        numbers: dict[RendezvousKey, int] = {}
        kinds: dict[tuple[Any, ...], int] = {}
        world.exchange = self._array(
            "Exchange", [self._exchange(e, numbers, kinds) for e in exchanges]
        )
        world.rendezvous_count = len(numbers)
        world.rendezvous = self._array(
            "Rendezvous", [self._rendezvous(group) for _, group, _ in numbers]
        )
        world.spins = _SPINS if count <= cores else 0
        world.helpers = cores - 1
        world.clock = int(time.CLOCK_MONOTONIC)
        for device, state in enumerate(self._states):
            state.exchange = self._machine.addresses["exchange_data"]
            state.replica, state.partition = divmod(device, program.partitions)
            state.world, state.number = ctypes.addressof(world), device
            state.stop = ctypes.addressof(self._flags[device])
            state.nanoseconds = ctypes.addressof(self._times[device])

    @property
    def devices(self) -> tuple[int, ...]:
        """All devices of the program."""
        return tuple(range(self._program.devices))

    def state(self, device: int) -> int:
        """Return the address of the state of a device."""
        return ctypes.addressof(self._states[device])

    def run(self, entry: int, tables: Sequence[DeviceTable]) -> None:
        """Run `entry` on all devices, the first on the thread of the caller.

        Raises:
            HloError: a deadlock; rows of a ragged all-to-all are out of bounds; too few threads.
        """
        for state, table in zip(self._states, tables, strict=True):
            state.stop = table.stop
        run = STRUCTURES.structure("Run")()
        run.devices, run.entry = len(tables), entry
        pointers = (ctypes.c_void_p * len(tables))(*(table.table for table in tables))
        run.tables, run.states = ctypes.addressof(pointers), self._world.states
        if self._run(ctypes.addressof(run)):
            raise HloError(f"the system cannot create threads for {len(tables)} devices")
        if self._world.stopped == _STOP["DEADLOCK"]:
            raise deadlock(self._program, [int(state.waits_at) for state in self._states])
        world, exchanges = self._world, self._program.exchanges
        if world.stopped == _STOP["MISMATCH"]:
            own, other = exchanges[world.fault_exchange], exchanges[world.fault_count]
            raise mismatch(own, other, int(world.fault_device))
        if world.stopped == _STOP["MEMORY"]:
            raise HloError("out of memory for the data that devices send to each other")
        if world.stopped == _STOP["ROWS"]:
            numbers = (world.fault_count, world.fault_start, world.fault_target)
            raise rows_outside(exchanges[world.fault_exchange], int(world.fault_device), numbers)

    def stop(self) -> None:
        """End the current run."""
        self._stop(ctypes.addressof(self._world), _STOP["ASKED"])

    def seconds(self) -> tuple[tuple[float, ...], ...]:
        """Return the time of each device in each exchange so far, waiting included."""
        return tuple(tuple(time * 1e-9 for time in times) for times in self._times)

    # ---- structures

    def _exchange(
        self,
        exchange: Exchange,
        numbers: dict[RendezvousKey, int],
        kinds: dict[tuple[Any, ...], int],
    ) -> Any:
        """Return the structure of one exchange for machine code: what each device does, by number.

        A device without a group has rendezvous -1 and its results are zeros. `numbers` and `kinds`
        are shared by all exchanges: equal ones meet.
        """
        devices = range(self._program.devices)
        rendezvous_of, rank_of = [-1] * len(devices), [0] * len(devices)
        combiners_of = [0] * len(devices)
        for group in exchange.groups:
            number = numbers.setdefault((exchange.opcode, group, exchange.channel), len(numbers))
            combiners = self._combiners(exchange, len(group))
            for rank, device in enumerate(group):
                rendezvous_of[device], rank_of[device] = number, rank
                combiners_of[device] = combiners
        if exchange.opcode in ("send", "recv"):
            rendezvous_of = [-1] * len(devices)
            for pair in exchange.pairs:
                key = ("transfer", pair, exchange.channel)
                end = pair[0] if exchange.opcode == "send" else pair[1]
                rendezvous_of[end] = numbers.setdefault(key, len(numbers))
        source_of = [-1] * len(devices)
        for source, target in exchange.pairs:
            source_of[target] = rank_of[source]
        result = STRUCTURES.structure("Exchange")()
        result.opcode = _OPCODES[exchange.opcode.replace("-", "_")]
        result.operands, result.results = len(exchange.operands), len(exchange.results)
        result.operand = self._array("Pieces", list(map(_pieces, exchange.operands)))
        result.result = self._array("Pieces", list(map(_pieces, exchange.results)))
        result.is_tuple = len(exchange.results) > 1
        result.rendezvous_of = self._words(rendezvous_of)
        result.rank_of = self._words(rank_of)
        result.source_of = self._words(source_of)
        result.combiners_of = self._words(combiners_of)
        result.kind = kinds.setdefault((exchange.meaning, exchange.combiners), len(kinds))
        return result

    def _combiners(self, exchange: Exchange, members: int) -> int:
        """Return the address of the combiners of groups of this size, by operand."""
        symbols = {c.operand: c.symbol for c in exchange.combiners if c.members == members}
        return self._words([self._program.combiners[symbols[i]] for i in sorted(symbols)])

    def _rendezvous(self, group: tuple[int, ...]) -> Any:
        result = STRUCTURES.structure("Rendezvous")()
        result.members = len(group)
        result.devices = self._words(list(group))
        result.arrays = self._words([0] * len(group))
        result.exchanges = self._words([0] * len(group))
        return result

    def _array(self, name: str, items: list[Any]) -> int:
        """Return the address of an array of structures that lives as long as this object."""
        array = (STRUCTURES.structure(name) * len(items))(*items)
        self._kept.append(array)
        return ctypes.addressof(array)

    def _words(self, numbers: list[int]) -> int:
        words = (ctypes.c_int64 * len(numbers))(*numbers)
        self._kept.append(words)
        return ctypes.addressof(words)


def _pieces(pieces: Pieces) -> Any:
    result = STRUCTURES.structure("Pieces")()
    dtype = DTYPES[pieces.dtype]
    result.outer, result.count, result.inner_bytes = (
        pieces.outer,
        pieces.count,
        pieces.inner_bytes,
    )
    result.element_bytes, result.is_signed = dtype.storage_bytes, dtype.is_signed
    return result
