"""The engine `mpi`: devices in several processes, one or more in each.

    mpiexec -n 8 hloc run FILE

Process p of P runs the devices p * D/P to (p+1) * D/P - 1 of D. Generated code calls machine code,
which calls MPI: no Python runs. An error, a deadlock or Ctrl-C on one process aborts the job, since
the others may be waiting for it inside MPI, where nothing else reaches them.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hloc.codegen.plan.exchange import Exchange
from hloc.errors import HloError
from hloc.runtime.communicator.faults import deadlock, described, mismatch, rows_outside
from hloc.runtime.communicator.interface import DeviceTable, ExchangeProgram
from hloc.runtime.communicator.mpi.call_lists import (
    IN_ORDER,
    TRANSFERS,
    CallList,
    ExchangeOptions,
    awaited,
    call_list,
    rendezvous_numbers,
)
from hloc.runtime.communicator.mpi.handles import Library
from hloc.runtime.communicator.mpi.native import STRUCTURES, DeviceMemory
from hloc.runtime.communicator.mpi.positions import Position
from hloc.runtime.communicator.mpi.transfers import Transfers
from hloc.runtime.communicator.mpi.transport import Processes
from hloc.runtime.communicator.mpi.watch import Watch

_FAULTS = STRUCTURES.enum("Fault")
_POLL_SECONDS = 0.002
_LAST_WORDS_SECONDS = 0.05
"""Time for the launcher to forward output; some launchers drop it once a job is aborted."""

_STOP_SECONDS = 0.2
"""Time for a run to end after it has been stopped."""


class MpiEngine:
    """The processes of one job; creates the communicators of all programs that they run.

    Attributes:
        library: MPI.
        options: options of exchanges.
        limit_seconds: longest wait of a device in one exchange, 0 for no limit.
    """

    def __init__(self, options: ExchangeOptions = IN_ORDER, limit_seconds: float = 0.0) -> None:
        """Join the job; all processes do this.

        Raises:
            HloError: mpi4py is missing.
        """
        self.library = Library()
        self.options, self.limit_seconds = options, limit_seconds
        self._communicators: list[MpiCommunicator] = []
        self._runs = 0
        atexit.register(self._leave)

    @property
    def is_first(self) -> bool:
        """True in process 0, which prints for all."""
        return self.library.rank == 0

    @property
    def neighbours(self) -> int:
        """The number of processes of the job on this machine."""
        return self.library.neighbours

    def devices(self, count: int) -> range:
        """Return the devices of this process, of `count`.

        Raises:
            HloError: the processes cannot share them equally.
        """
        return self._processes(count).of(self.library.rank)

    def gathered(self, data: Any) -> list[Any] | None:
        """Return the `data` of all processes by rank in process 0, None in the others."""
        found: list[Any] | None = self.library.control.gather(data)
        return found

    def __call__(self, program: ExchangeProgram) -> MpiCommunicator:
        """Return the communicator of a program; all processes do this, in the same order.

        Raises:
            HloError: the processes cannot share the devices equally, or run different programs.
        """
        self.agree(repr((program.exchanges, program.replicas, program.partitions, self.options)))
        result = MpiCommunicator(self, program, self._processes(program.devices))
        self._communicators.append(result)
        return result

    def _leave(self) -> None:
        """Wait for the end of all processes, and answer those that wait for this one."""
        if getattr(sys, "last_value", None) is not None:  # the process ends by an exception
            self.end_job("")
        left = self.library.control.Ibarrier()
        while not left.Test():
            time.sleep(_POLL_SECONDS)
        for communicator in self._communicators:
            communicator.close()

    def _processes(self, devices: int) -> Processes:
        count = self.library.processes
        if devices % count:
            raise HloError(
                f"{devices} devices cannot be divided equally among {count} processes",
                notes=(f"start as many processes as divide {devices}: mpiexec -n {devices}",),
            )
        return Processes(devices, devices // count)

    def count_run(self) -> int:
        """Return the number of a new run, the same in all processes."""
        self._runs += 1
        return self._runs

    def agree(self, text: str) -> None:
        """Check that all processes call this with the same text.

        Raises:
            HloError: they do not; it names the processes.
        """
        digest = hashlib.sha256(text.encode()).hexdigest()
        digests = self.library.control.allgather(digest)
        others = [rank for rank, other in enumerate(digests) if other != digests[0]]
        if others:
            those = ", ".join(map(str, others[:8])) + (", ..." if len(others) > 8 else "")
            raise HloError(
                f"process{'es' if len(others) > 1 else ''} {those} of the job "
                f"{'have' if len(others) > 1 else 'has'} another module or other options than "
                "process 0",
                notes=("all processes of a job run the same file with the same options",),
            )

    def end_job(self, error: HloError | str, code: int = 1) -> None:
        """Print the reason and end all processes."""
        if error:
            print(error, file=sys.stderr, flush=True)
        sys.stdout.flush()
        sys.stderr.flush()
        time.sleep(_LAST_WORDS_SECONDS)
        self.library.abort(code)


def _rendezvous_of_transfers(exchanges: Sequence[Exchange]) -> tuple[int, ...]:
    numbers = zip(rendezvous_numbers(exchanges, -1), exchanges, strict=True)
    return tuple({number for number, exchange in numbers if exchange.opcode in TRANSFERS})


class MpiCommunicator:
    """The devices of one program in this process."""

    def __init__(self, engine: MpiEngine, program: ExchangeProgram, processes: Processes) -> None:
        """Create the communicators of all groups, and the call lists of the devices here."""
        self._engine, self._program, self._processes = engine, program, processes
        self._options = engine.options
        if self._options.checked is None:
            checked = any(exchange.may_diverge for exchange in program.exchanges)
            self._options = replace(self._options, checked=checked)
        library = engine.library
        self.devices = tuple(processes.of(library.rank))
        self._transfers = Transfers(program.exchanges, processes, self._options.most_bytes)
        self._awaited = awaited(program.exchanges)
        self._sent_and_received = _rendezvous_of_transfers(program.exchanges)
        self._make_communicators(library)
        self._memory = {device: self._memory_of(device, library) for device in self.devices}
        self._runs = 0
        self._sweeping = threading.Lock()
        self._over = dict.fromkeys(self.devices, True)
        self._peers: dict[tuple[int, int], tuple[int, ...]] = {}
        self._watch = Watch(
            library.mpi, library.world.Dup(), self, engine.end_job, engine.limit_seconds
        )

    def _make_communicators(self, library: Library) -> None:
        """Create those of the groups with this process, in the order of the program."""
        groups = [g for exchange in self._program.exchanges for g in exchange.groups]
        for number, group in enumerate(dict.fromkeys(groups)):
            if self._processes.are_apart(group) and set(group) & set(self.devices):
                library.make_communicator(group, self._processes, number)

    def _memory_of(self, device: int, library: Library) -> DeviceMemory:
        program = self._program
        numbers = rendezvous_numbers(program.exchanges, device)
        lists = [self._call_list(i, number, device) for i, number in enumerate(numbers)]
        ids = divmod(device, program.partitions)
        return DeviceMemory(library, lists, numbers, program.combiners, ids)

    def _call_list(self, exchange: int, rendezvous: int, device: int) -> CallList:
        found = self._program.exchanges[exchange]
        if found.opcode in TRANSFERS:
            return self._transfers.call_list(exchange, device)
        return call_list(found, rendezvous, device, self._processes, self._options)

    def state(self, device: int) -> int:
        """Return the address of the state of a device."""
        return self._memory[device].address

    def seconds(self) -> tuple[tuple[float, ...], ...]:
        """Return the time in each exchange so far, by device of this process."""
        return tuple(self._memory[device].seconds for device in self.devices)

    # ---- runs

    def run(self, entry: int, tables: Sequence[DeviceTable]) -> None:
        """Run `entry` on the devices of this process, the first on the thread of the caller.

        Raises:
            HloError: an exchange failed; the other processes wait until this one ends the job.
        """
        self._runs += 1
        run = self._engine.count_run()
        with self._sweeping:
            for memory in self._memory.values():
                memory.begin(run, self._sent_and_received)
            self._over = dict.fromkeys(self.devices, False)
        call = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(entry)

        def perform(device: int, table: DeviceTable) -> None:
            call(table.table)
            self._over[device] = True

        first, *others = zip(self.devices, tables, strict=True)
        threads = [threading.Thread(target=perform, args=pair) for pair in others]
        for thread in threads:
            thread.start()
        perform(*first)
        for thread in threads:
            thread.join()
        for device in self.devices:
            if self._memory[device].state.status:
                raise self._fault(device)

    def stop(self) -> None:
        """End the run: at the next exchange, or with the job if a device waits for another."""
        for memory in self._memory.values():
            memory.stop()
        run = self._runs
        timer = threading.Timer(_STOP_SECONDS, self._end_if_running, (run,))
        timer.daemon = True
        timer.start()

    def _end_if_running(self, run: int) -> None:
        if run == self._runs and not all(self._over.values()):
            self._engine.end_job("hloc: stopped while devices waited for other processes", 130)

    def close(self) -> None:
        """Stop watching; called when no process will run the program again."""
        self._watch.close()

    # ---- queries of the watch

    @property
    def positions(self) -> Mapping[int, Position]:
        """The positions of the devices of this process."""
        return {device: self._position(device) for device in self.devices}

    def _position(self, device: int) -> Position:
        memory = self._memory[device]
        if self._over[device]:
            return Position(self._runs, memory.visits, is_over=self._runs > 0)
        place, visits = memory.place, memory.visits
        if place is None:
            return Position(self._runs, visits)
        number, rendezvous = place
        return Position(self._runs, visits, rendezvous, number, self._awaited[number])

    def peers(self, exchange: int, device: int) -> tuple[int, ...]:
        """Return the devices that must take part in an exchange."""
        key = exchange, device
        if key not in self._peers:
            self._peers[key] = self._call_list(exchange, exchange, device).peers
        return self._peers[key]

    @property
    def is_sending(self) -> bool:
        """Whether finished devices here still send; frees the data that has been sent."""
        with self._sweeping:
            return any([self._memory[d].sweep() for d in self.devices if self._over[d]])

    def deadlock(self, positions: Mapping[int, Position]) -> HloError:
        """Return the error of a deadlock."""
        return deadlock(self._program, self._waits_at(positions))

    def overdue(self, positions: Mapping[int, Position]) -> HloError:
        """Return the error of a device that has waited for too long."""
        found = deadlock(self._program, self._waits_at(positions)).diagnostics[0]
        return HloError(
            f"a device has waited for more than {self._engine.limit_seconds:g} s", notes=found.notes
        )

    def _waits_at(self, positions: Mapping[int, Position]) -> list[int]:
        """Return per device the number of its exchange from 1, -1 at the end, 0 while it runs."""
        result = [0] * self._program.devices
        for device, position in positions.items():
            result[device] = -1 if position.is_over else position.exchange + 1
        return result

    # ---- faults

    def _fault(self, device: int) -> HloError:
        """Return the error of a failed exchange of a device."""
        memory = self._memory[device]
        state = memory.state
        exchange = self._program.exchanges[state.number]
        function = memory.lists[state.number].calls[state.failed_call].function
        if function == "compare_words":
            return self._mismatch(device, exchange)
        if function == "exchange_rows" and state.fault_rank >= 0:
            group = next(group for group in exchange.groups if device in group)
            numbers = int(state.fault_count), int(state.fault_start), int(state.fault_place)
            return rows_outside(exchange, group[state.fault_rank], numbers)
        if function in ("post", "fetch") and state.status in _FAULTS.values():
            return self._transfer_fault(device)
        text = self._engine.library.error_text(state.status)
        return HloError(f"{described(exchange)} on device {device}: {function}: {text}")

    def _transfer_fault(self, device: int) -> HloError:
        state = self._memory[device].state
        own = self._program.exchanges[state.number]
        if state.status == _FAULTS["MEMORY"]:
            return HloError("out of memory for the data that devices send to each other")
        if state.status == _FAULTS["MISMATCH"]:
            return mismatch(own, self._program.exchanges[state.other_number], device)
        waits_at = [-1] * self._program.devices  # the sender is in a later run
        waits_at[device] = state.number + 1
        return deadlock(self._program, waits_at)

    def _mismatch(self, device: int, exchange: Exchange) -> HloError:
        state = self._memory[device].state
        other = self.peers(state.number, device)[state.other_peer]
        found = self._program.exchanges[state.other_number]
        return HloError(
            f"device {device} is at {described(exchange)}, but device {other} is at "
            f"{described(found)}",
            notes=("all members of a group must run the same collectives in the same order",),
        )
