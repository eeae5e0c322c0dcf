"""The engine `nccl`: GPUs of this process, whose collectives are NCCL calls on their streams.

A thread runs the plan of each device. Threads rendezvous before NCCL is called: the last one to
arrive enqueues the work of all members. So NCCL never sees an incomplete group, a GPU never waits
for a missing member, and a deadlock is found at once. No thread waits for the GPUs.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, TypeAlias

from hloc.codegen.plan.exchange import Exchange
from hloc.errors import HloError
from hloc.lazy_dataclass import dataclass
from hloc.runtime.communicator.faults import deadlock, mismatch
from hloc.runtime.communicator.interface import ExchangeProgram
from hloc.runtime.communicator.nccl.interface import Nccl, grouped
from hloc.runtime.communicator.nccl.work import Task, ask_for, write_zeros
from hloc.runtime.gpu.device import Device

RendezvousKey: TypeAlias = tuple[str, tuple[int, ...], int | None]
"""Opcode, group and channel: the rendezvous key, as in the local engine."""


class Stopped(Exception):
    """Ends the thread of a device whose run was stopped; not shown to users."""


@dataclass(slots=True)
class _Rendezvous:
    """The members that have arrived, with exchange and addresses by rank."""

    arrived: dict[int, tuple[int, Sequence[int]]] = field(default_factory=dict)
    completions: int = 0


class NcclCommunicator:
    """The devices of one program, all in this process; one run at a time."""

    def __init__(self, program: ExchangeProgram, devices: Sequence[Device], nccl: Nccl) -> None:
        """Create the communicators of all groups.

        Args:
            program: the program.
            devices: by flattened id.
            nccl: for these devices.

        Raises:
            HloError: NCCL fails.
        """
        self._program, self._devices, self._nccl = program, devices, nccl
        self._comms: dict[tuple[int, ...], Sequence[Any]] = {}
        for exchange in program.exchanges:
            for group in (*exchange.groups, *_ends(exchange)):
                if group not in self._comms:
                    self._comms[group] = nccl.communicators(group)
        self._changed = threading.Condition()
        self._seconds = [[0.0] * len(program.exchanges) for _ in devices]
        self._begin()

    @property
    def devices(self) -> tuple[int, ...]:
        """All devices of the program."""
        return tuple(range(len(self._devices)))

    def seconds(self) -> tuple[tuple[float, ...], ...]:
        """Return the host time in each exchange so far, by device."""
        return tuple(map(tuple, self._seconds))

    def run(self, perform: Callable[[int], None]) -> None:
        """Call `perform` with the number of each device, on threads of their own.

        Raises:
            HloError: a deadlock, an exchange that failed, or the first error of a device.
            KeyboardInterrupt: Ctrl-C, once all threads have ended.
        """
        self._begin()
        threads = [
            threading.Thread(target=self._perform, args=(perform, device), daemon=True)
            for device in self.devices
        ]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except KeyboardInterrupt:
            self.stop()
            for thread in threads:
                thread.join()
            raise
        for (pair, _), box in self._mail.items():
            while box:  # sent and never received
                self._devices[pair[0]].free(box.popleft()[1])
        if self._fault is not None:
            raise self._fault
        if self.is_stopped:
            raise HloError("the run was stopped")

    def stop(self) -> None:
        """End the current run: devices end at their next exchange or iteration."""
        with self._changed:
            self.is_stopped = True
            self._changed.notify_all()

    def close(self) -> None:
        """Free the resources of NCCL."""
        self._nccl.close()

    def exchange(self, device: int, number: int, arrays: Sequence[int]) -> None:
        """Take part in an exchange; `arrays` are the addresses of operands and results.

        Raises:
            Stopped: the run was stopped.
            HloError: the exchange failed.
        """
        begin = time.perf_counter()
        exchange = self._program.exchanges[number]
        with self._changed:
            if exchange.opcode == "send":
                self._send(device, exchange, arrays)
            elif exchange.opcode == "recv":
                self._receive(device, number, arrays)
            else:
                self._meet(device, number, arrays)
        self._seconds[device][number] += time.perf_counter() - begin

    # ---- runs

    def _begin(self) -> None:
        self.is_stopped = False
        self._fault: BaseException | None = None
        self._waits_at = [0] * len(self._devices)
        self._rendezvous: defaultdict[RendezvousKey, _Rendezvous] = defaultdict(_Rendezvous)
        self._mail: defaultdict[Any, deque[tuple[Exchange, int]]] = defaultdict(deque)

    def _perform(self, perform: Callable[[int], None], device: int) -> None:
        try:
            perform(device)
        except Stopped:
            pass
        except BaseException as fault:
            with self._changed:
                self._fail(fault)
        with self._changed:
            self._waits_at[device] = -1
            self._find_deadlock()

    def _fail(self, fault: BaseException) -> None:
        if self._fault is None and not self.is_stopped:
            self._fault = fault
        self.is_stopped = True
        self._changed.notify_all()

    def _wait(self, device: int, number: int, is_over: Callable[[], bool]) -> None:
        """Let other devices run until `is_over` holds."""
        self._waits_at[device] = number + 1
        self._find_deadlock()
        self._changed.wait_for(lambda: is_over() or self.is_stopped)
        if not is_over():
            raise Stopped
        self._waits_at[device] = 0

    def _find_deadlock(self) -> None:
        """End the run if all devices wait or have ended, unless all have ended."""
        if all(self._waits_at) and max(self._waits_at) > 0 and not self.is_stopped:
            self._fail(deadlock(self._program, self._waits_at))

    # ---- collectives

    def _meet(self, device: int, number: int, arrays: Sequence[int]) -> None:
        """Arrive at an exchange; the last member of the group enqueues it, the others wait."""
        exchange = self._program.exchanges[number]
        group = next((group for group in exchange.groups if device in group), ())
        if not group:
            write_zeros(self._devices[device], exchange, arrays)
            return
        rendezvous = self._rendezvous[exchange.opcode, group, exchange.channel]
        rendezvous.arrived[group.index(device)] = number, arrays
        if len(rendezvous.arrived) < len(group):
            before = rendezvous.completions
            self._wait(device, number, lambda: rendezvous.completions > before)
            return
        for rank, (other, _) in rendezvous.arrived.items():
            found = self._program.exchanges[other]
            if (found.meaning, found.reducer) != (exchange.meaning, exchange.reducer):
                raise mismatch(found, exchange, group[rank])
            self._waits_at[group[rank]] = 0
        ask_for(
            Task(
                self._nccl,
                exchange,
                group,
                [self._devices[member] for member in group],
                self._comms[group],
                [rendezvous.arrived[rank][1] for rank in range(len(group))],
            )
        )
        rendezvous.arrived = {}
        rendezvous.completions += 1
        self._changed.notify_all()

    # ---- transfers

    def _send(self, device: int, exchange: Exchange, arrays: Sequence[int]) -> None:
        """Put a copy of the data into the mailbox of its receiver."""
        for pair in exchange.pairs:
            if pair[0] == device:
                own, size = self._devices[device], exchange.operands[0].size_bytes
                copy = own.allocate(size)
                if size:
                    own.copy(copy, arrays[0], size)
                self._mail[pair, exchange.channel].append((exchange, copy))
                receiver = self._waits_at[pair[1]]
                if receiver > 0 and self._program.exchanges[receiver - 1].channel == (
                    exchange.channel
                ):
                    self._waits_at[pair[1]] = 0
                self._changed.notify_all()

    def _receive(self, device: int, number: int, arrays: Sequence[int]) -> None:
        """Take the oldest data out of the mailbox."""
        exchange = self._program.exchanges[number]
        pair = next((pair for pair in exchange.pairs if pair[1] == device), None)
        if pair is None:
            write_zeros(self._devices[device], exchange, arrays)
            return
        box = self._mail[pair, exchange.channel]
        if not box:
            self._wait(device, number, lambda: bool(box))
        sent, copy = box.popleft()
        if sent.meaning != exchange.meaning:
            raise mismatch(exchange, sent, pair[0])
        size = exchange.results[0].size_bytes
        comms, (source, target) = self._comms[_group(pair)], _ranks(pair)
        if size:
            with grouped(self._nccl):
                self._nccl.send(comms[source], copy, size, target)
                self._nccl.recv(comms[target], arrays[0], size, source)
        self._devices[pair[0]].free(copy)


def _ends(exchange: Exchange) -> Sequence[tuple[int, ...]]:
    """Return the groups of the pairs of a transfer."""
    return [_group(pair) for pair in exchange.pairs] if exchange.opcode == "send" else []


def _group(pair: tuple[int, int]) -> tuple[int, ...]:
    return tuple(sorted(set(pair)))


def _ranks(pair: tuple[int, int]) -> tuple[int, int]:
    group = _group(pair)
    return group.index(pair[0]), group.index(pair[1])
