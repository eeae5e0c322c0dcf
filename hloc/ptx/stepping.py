"""Execution traces: a record of every instruction of a block while the kernel runs.

`launch` takes a `Watch`. Its block runs on a machine whose operations report their execution; other
blocks, and launches without a watch, run as usual.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace

import numpy as np

from hloc.lazy_dataclass import dataclass
from hloc.ptx.clocks import WarpClocks
from hloc.ptx.code import Code, Fall
from hloc.ptx.frame import Stored, named_registers
from hloc.ptx.functions import reachable
from hloc.ptx.lanes import WARP, Lanes, numbers_of
from hloc.ptx.machine import Machine, Place
from hloc.ptx.metrics import Metrics
from hloc.ptx.operation import Operation
from hloc.ptx.program import Instruction, PtxModule
from hloc.ptx.spaces import WINDOWS
from hloc.ptx.threads import Threads
from hloc.ptx.value_types import Array

MOST_MOMENTS = 20_000
"""Most instructions of groups of lanes that a watch records; later ones run without a record."""


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """A memory access by lanes of the warp: `size` bytes at an address for each lane.

    Attributes:
        space: `global`, `shared`, `local` or `param`; addresses count from its start.
        lanes: positions in the warp, ascending.
    """

    space: str
    lanes: Array
    addresses: Array
    size: int


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """One instruction, executed by a group of lanes of the block.

    Attributes:
        lanes: lanes of the block that executed it, or arrived at it if it waits for others.
        registers: changed registers of the watched warp: name -> one value per lane.
        accesses: memory accesses by lanes of the watched warp.
        shared: changed words of the block's shared memory: byte offset -> four bytes.
    """

    instruction: Instruction
    lanes: Array
    registers: Mapping[str, Array]
    accesses: tuple[Access, ...]
    shared: Mapping[int, bytes]

    def active(self, warp: int) -> Array:
        """Return the lanes of a warp that executed it, as positions in the warp."""
        return np.asarray(self.lanes[self.lanes // WARP == warp] % WARP)


@dataclass(slots=True, eq=False)
class Watch:
    """The observer of a block during a launch.

    Attributes:
        block: linear number of the block.
        warp: the warp of that block whose registers are recorded.
        moments: the record, in order; filled by `launch`, also if the kernel has a fault.
        is_cut: there were more than `MOST_MOMENTS` instructions.
    """

    block: int
    warp: int
    moments: list[Moment] = field(default_factory=list)
    is_cut: bool = False

    def chunks(self, blocks: int, at_once: int) -> Iterator[tuple[int, int]]:
        """Yield first block and number of blocks of each chunk; the watched block is a chunk."""
        for start, end in ((0, self.block), (self.block, self.block + 1), (self.block + 1, blocks)):
            for first in range(start, min(end, blocks), at_once):
                yield first, min(at_once, end - first)

    def machine(
        self,
        module: PtxModule,
        code: Code,
        threads: Threads,
        clocks: WarpClocks | None,
        step_limit: int | None,
    ) -> Machine:
        """Return a machine for the watched block that reports to this watch."""
        recorder = _Recorder(self, module, code, threads)
        threads.metrics = recorder
        return _WatchedMachine(_noting(code, recorder), threads, clocks, step_limit, recorder)


class _Recorder(Metrics):
    """Compares registers and shared memory before and after each instruction."""

    def __init__(self, watch: Watch, module: PtxModule, code: Code, threads: Threads) -> None:
        super().__init__(code)
        self._watch, self._threads = watch, threads
        first = WARP * watch.warp
        self._warp = slice(first, min(first + WARP, threads.geometry.lanes))
        functions = reachable(module, code.kernel)
        self._function = {i.line: f.name for f in functions for i in f.instructions}
        self._kernel = code.kernel.name
        self._rows = _register_rows(code)
        self._values: dict[str, Array] = {}
        self._accesses: list[Access] = []
        self._last_words = _words(threads)

    def access(self, space: str, lanes: Lanes, addresses: Array, size: int) -> None:
        """Record an access of the current instruction."""
        if self._watch.is_cut:
            return
        numbers = numbers_of(lanes)
        mine = numbers // WARP == self._watch.warp
        if mine.any():
            space, places = _placed(space, addresses[mine])
            self._accesses.append(Access(space, numbers[mine] % WARP, places, size))

    def note(self, instruction: Instruction, lanes: Lanes) -> None:
        """Record that `lanes` have executed an instruction."""
        watch = self._watch
        watch.is_cut = len(watch.moments) >= MOST_MOMENTS
        if watch.is_cut:
            return
        accesses, self._accesses = tuple(self._accesses), []
        registers = dict(self._changed(instruction))
        written = dict(self._written())
        moment = Moment(instruction, numbers_of(lanes).copy(), registers, accesses, written)
        watch.moments.append(moment)

    def _changed(self, instruction: Instruction) -> Iterator[tuple[str, Array]]:
        """Yield the registers of an instruction whose values have changed."""
        function = self._function[instruction.line]
        names: set[str] = set()
        named_registers(instruction.operands, names)
        for name in sorted(names):
            storage = f"{function}:{name}"
            row = self._rows.get(storage)
            if row is None:
                continue
            now = self._threads.rows[row][self._warp].copy()
            before = self._values.get(storage)
            if before is None or now.tobytes() != before.tobytes():
                self._values[storage] = now
                yield name if function == self._kernel else storage, now

    def _written(self) -> Iterator[tuple[int, bytes]]:
        """Yield the words of shared memory that were initialised or have changed."""
        before, now = self._last_words, _words(self._threads)
        different = np.flatnonzero((before != now).any(axis=1))
        if len(different):
            self._last_words = now
            for word in different:
                yield 4 * int(word), now[word, 0].tobytes()


def _placed(space: str, addresses: Array) -> tuple[str, Array]:
    """Return space and offsets of generic addresses; others are unchanged."""
    if space != "generic":
        return space, addresses.copy()
    starts = sorted((start, name) for name, start in WINDOWS.items())
    start, space = max(row for row in starts if row[0] <= int(addresses[0]))
    return space, addresses - addresses.dtype.type(start)


def _words(threads: Threads) -> Array:
    """Return a copy of shared memory: bytes and byte states of each word."""
    data, state = threads.spaces.shared.piece(0)
    return np.stack([data.view(np.uint32), state.view(np.uint32)], axis=1)


def _register_rows(code: Code) -> dict[str, int]:
    """Return the best row for display of each register: a float if it is ever used as one."""
    found: dict[str, tuple[tuple[bool, int], int]] = {}
    for source, number in code.table.numbers.items():
        if isinstance(source, Stored) and source.offset == 0:
            worth = source.dtype.kind == "f", source.dtype.itemsize * source.columns
            if source.storage not in found or worth > found[source.storage][0]:
                found[source.storage] = worth, number
    return {storage: number for storage, (_, number) in found.items()}


def _noting(code: Code, recorder: _Recorder) -> Code:
    """Return instrumented code that reports every instruction to a recorder."""
    blocks = []
    for block in code.blocks:
        pairs = zip(block.operations, block.instructions, strict=False)
        noting = tuple(_noting_one(operation, i, recorder) for operation, i in pairs)
        blocks.append(replace(block, operations=noting))
    return replace(code, blocks=tuple(blocks))


def _noting_one(operation: Operation, instruction: Instruction, recorder: _Recorder) -> Operation:
    def run(threads: Threads, lanes: Lanes) -> None:
        operation(threads, lanes)
        recorder.note(instruction, lanes)

    return run


class _WatchedMachine(Machine):
    """A machine that also reports the terminators of blocks."""

    def __init__(
        self,
        code: Code,
        threads: Threads,
        clocks: WarpClocks | None,
        step_limit: int | None,
        recorder: _Recorder,
    ) -> None:
        super().__init__(code, threads, clocks, step_limit)
        self._recorder = recorder

    def _end(self, place: Place, lanes: Lanes) -> None:
        super()._end(place, lanes)
        block = self.code.blocks[place[-1]]
        if not isinstance(block.end, Fall) and block.instructions:
            self._recorder.note(block.instructions[-1], lanes)
