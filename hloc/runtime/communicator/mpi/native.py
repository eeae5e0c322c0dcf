"""The machine code of `machine.py` and `machine_transfers.py`, and its data structures.

They contain the call lists, as words.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from hloc.codegen.llvm.structures import Structures
from hloc.runtime.communicator.mpi.call_lists import CallList
from hloc.runtime.communicator.mpi.calls import Buffer, Call, Handle, Operand
from hloc.runtime.communicator.mpi.handles import Library
from hloc.runtime.translated_code import Machine, load_translated

STRUCTURES = Structures("""\
struct State: int64_t unused
struct Operand: int64_t array, int64_t value
struct Call: void* function, int64_t is_own, int64_t count, Operand* operands
struct CallList: int64_t count, Call* first
struct Device: void* exchange, uint32_t replica, uint32_t partition, CallList* lists,
  int64_t* visits, int64_t* rendezvous_of, int64_t* nanoseconds, int64_t* row, int64_t clock,
  int64_t number, int64_t moves, int64_t failed_call, int64_t status, int64_t other_peer,
  int64_t other_number, int64_t stopped, int64_t fault_rank, int64_t fault_count,
  int64_t fault_start, int64_t fault_place, int64_t run, Message* mail
struct Message: Message* next, int64_t messages, int64_t run, int64_t exchange, int64_t kind,
  int64_t size_bytes
enum Fault: MEMORY=1048576, LATER=1048577, MISMATCH=1048578
""")
"""What the machine code works on.

An `Operand` is a word plus the address of array `array`, if that is not -1. `moves` of a device is
odd while it is in exchange `number`; `visits[r]` counts its arrivals at rendezvous r. `mail` is the
list of messages that a device has sent and MPI has not: requests and data follow the structure, and
all fields from `run` on are the header that is sent before the data. A `Fault` is a status that no
MPI library has: no memory, data of a `LATER` run, of another shape.
"""

_SOURCES = ("machine.py", "machine_transfers.py")
_ALIGNMENT = 64
_WORD = 8
_RUN_BITS = 32
"""Position of the run number in the counts of transfers."""


@cache
def machine() -> Machine:
    """Return the functions, loaded once in the process."""
    folder = Path(__file__).parent
    return load_translated("\n".join((folder / s).read_text() for s in _SOURCES), STRUCTURES)


class DeviceMemory:
    """The state of one device, and all memory that it points to.

    Attributes:
        state: the structure that machine code reads and writes.
        lists: the call list of each exchange.
    """

    def __init__(
        self,
        library: Library,
        lists: Sequence[CallList],
        rendezvous_of: tuple[int, ...],
        combiners: Mapping[str, int],
        ids: tuple[int, int],
    ) -> None:
        """Lay out the state.

        Args:
            library: whose functions are called.
            lists: the call list of each exchange.
            rendezvous_of: the rendezvous of each exchange.
            combiners: addresses by symbol.
            ids: replica and partition.
        """
        self.lists, self._rendezvous_of = tuple(lists), rendezvous_of
        self._library, self._combiners = library, combiners
        self._kept: list[Any] = []
        requests = max((item.requests for item in lists), default=0)
        self._addresses = {
            "scratch": self._memory(max((item.scratch_bytes for item in lists), default=0)),
            "requests": self._memory(requests * library.request_bytes),
            "statuses": self._memory(requests * library.status_bytes),
        }
        members = [1] + [len(item.peers) + 1 for item in lists]
        encoded = [word for item in lists for word in self._encoded_list(item)]
        self._visits, self._nanoseconds = np.zeros((2, max(len(lists), 1)), np.int64)
        self.state: Any = STRUCTURES.structure("Device")(
            exchange=machine().addresses["exchange_by_mpi"],
            replica=ids[0],
            partition=ids[1],
            lists=self._words(encoded),
            visits=self._visits.ctypes.data,
            rendezvous_of=self._words(rendezvous_of),
            nanoseconds=self._nanoseconds.ctypes.data,
            clock=int(time.CLOCK_MONOTONIC),
            row=self._memory((max(members) + 1) * _WORD),
        )

    @property
    def address(self) -> int:
        return ctypes.addressof(self.state)

    @property
    def place(self) -> tuple[int, int] | None:
        """The exchange that the device is in, and its rendezvous; None if it is in none."""
        if self.state.moves % 2 == 0:
            return None
        number = int(self.state.number)
        return number, self._rendezvous_of[number]

    @property
    def visits(self) -> tuple[int, ...]:
        """The number of visits of the device to each rendezvous."""
        return tuple(self._visits.tolist())

    @property
    def seconds(self) -> tuple[float, ...]:
        """The time in each exchange so far, waiting included."""
        return tuple(float(time) * 1e-9 for time in self._nanoseconds[: len(self.lists)])

    def begin(self, run: int, transfers: Collection[int]) -> None:
        """Prepare for a run.

        Args:
            run: its number, the same in all processes.
            transfers: rendezvous whose counts are reset, since data sent in one run may never be
                received.
        """
        self.state.run = run
        for rendezvous in transfers:
            self._visits[rendezvous] = run << _RUN_BITS
        self.state.status, self.state.stopped, self.state.fault_rank = 0, 0, -1
        self.state.moves += self.state.moves % 2

    def sweep(self) -> bool:
        """Free the data that has been sent; return whether some is in transit. Not during a run."""
        if not self.state.mail:
            return False
        testall = self._library.function("MPI_Testall")
        sweep = machine().function("sweep", 3)
        return bool(sweep(self.address, testall, self._addresses["statuses"]))

    def stop(self) -> None:
        """Let the next exchange end the run."""
        self.state.stopped = 1

    def _memory(self, size_bytes: int) -> int:
        """Return the address of new memory."""
        array = np.zeros(size_bytes + _ALIGNMENT, np.uint8)
        self._kept.append(array)
        return int(-(-array.ctypes.data // _ALIGNMENT) * _ALIGNMENT)

    def _words(self, words: Sequence[int]) -> int:
        """Return the address of memory that holds `words`."""
        array = np.array([*words, 0], np.int64)
        self._kept.append(array)
        return int(array.ctypes.data)

    def _encoded_list(self, calls: CallList) -> tuple[int, int]:
        encoded = [word for call in calls.calls for word in self._encoded_call(call)]
        return len(calls.calls), self._words(encoded)

    def _encoded_call(self, call: Call) -> tuple[int, ...]:
        own = machine().addresses.get(call.function)
        function = own if own is not None else self._library.function(call.function)
        operands = [word for operand in call.operands for word in self._encoded(operand)]
        return function, own is not None, len(call.operands), self._words(operands)

    def _encoded(self, operand: Operand) -> tuple[int, int]:
        match operand:
            case Buffer("array", index, offset):
                return index, offset
            case Buffer("requests" as kind, index):
                return -1, self._addresses[kind] + index * self._library.request_bytes
            case Buffer(kind, _, offset):
                return -1, self._addresses[kind] + offset
            case Handle("combiner", str() as symbol):
                return -1, self._combiners[symbol]
            case Handle("words", tuple() as words):
                return -1, self._words(words)
            case Handle():
                return -1, self._library.value(operand)
        return -1, operand
