"""The cost of a launch, counted as hardware would: sectors, wavefronts, instructions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field

import numpy as np

from hloc.lazy_dataclass import dataclass
from hloc.ptx.code import Code
from hloc.ptx.lanes import WARP, Lanes, numbers_of
from hloc.ptx.value_types import Array

SECTOR_BYTES = 32
BANKS = 32
BANK_BYTES = 4


@dataclass(frozen=True, slots=True)
class LaunchReport:
    """The counts of a launch. All but the first two are zero without metrics=True.

    `steps` counts instructions of groups of threads, `thread_instructions` those of single threads.
    `global_sectors` counts sectors of 32 bytes that each warp accesses per instruction,
    `global_bytes` the requested bytes. `shared_wavefronts` counts passes through the 32 banks,
    `shared_accesses` the passes of the same accesses without bank conflicts.
    """

    steps: int
    thread_instructions: int
    global_sectors: int = 0
    global_bytes: int = 0
    shared_wavefronts: int = 0
    shared_accesses: int = 0
    opcodes: Mapping[str, int] = field(default_factory=dict)  # executed by threads

    @property
    def bank_conflict_ratio(self) -> float:
        """Wavefronts per ideal access; 1.0 is free of conflicts."""
        return self.shared_wavefronts / self.shared_accesses if self.shared_accesses else 1.0

    @property
    def sector_bytes(self) -> int:
        """Bytes of all accessed sectors."""
        return self.global_sectors * SECTOR_BYTES

    @property
    def sector_efficiency(self) -> float:
        """Share of requested bytes in all accessed sectors."""
        return self.global_bytes / self.sector_bytes if self.sector_bytes else 1.0

    @classmethod
    def total(cls, reports: Sequence[LaunchReport]) -> LaunchReport:
        """Return the sums over several launches, without opcodes."""
        return cls(
            sum(report.steps for report in reports),
            sum(report.thread_instructions for report in reports),
            sum(report.global_sectors for report in reports),
            sum(report.global_bytes for report in reports),
            sum(report.shared_wavefronts for report in reports),
            sum(report.shared_accesses for report in reports),
        )

    @classmethod
    def of(cls, steps: int, thread_instructions: int, metrics: Metrics | None) -> LaunchReport:
        """Return the report of counted metrics."""
        if metrics is None:
            return cls(steps, thread_instructions)
        return cls(
            steps,
            thread_instructions,
            metrics.global_sectors,
            metrics.global_bytes,
            metrics.shared_wavefronts,
            metrics.shared_accesses,
            metrics.opcodes(),
        )


class Metrics:
    """Counters of one launch."""

    def __init__(self, code: Code) -> None:
        self._code = code
        self._block_threads: Counter[int] = Counter()
        self.global_sectors = 0
        self.global_bytes = 0
        self.shared_wavefronts = 0
        self.shared_accesses = 0

    def count_block(self, block: int, threads: int) -> None:
        """Count the threads that ran a block."""
        self._block_threads[block] += threads

    def opcodes(self) -> dict[str, int]:
        """Return the executions of each opcode by threads, most frequent first."""
        found: Counter[str] = Counter()
        for block, threads in self._block_threads.items():
            for instruction in self._code.blocks[block].instructions:
                found[instruction.opcode] += threads
        return dict(found.most_common())

    def access(self, space: str, lanes: Lanes, addresses: Array, size: int) -> None:
        """Count one access of `size` bytes per lane."""
        warps = numbers_of(lanes) // WARP
        if space == "global":
            self.global_bytes += size * len(addresses)
            self.global_sectors += _sectors(warps, addresses, size)
        elif space == "shared":
            self._shared(warps, addresses, size)

    def _shared(self, warps: Array, addresses: Array, size: int) -> None:
        """Count wavefronts; accesses of 8 or 16 bytes are split into parts of 16 or 8 lanes."""
        words = max(1, size // BANK_BYTES)
        part_size = WARP // words if words <= 4 else 8
        order = np.arange(len(addresses))
        start = np.searchsorted(warps, warps)
        part = warps * WARP + (order - start) // part_size
        word = addresses.astype(np.int64)[:, None] // BANK_BYTES + np.arange(words)
        parts, touched = _distinct_pairs(np.repeat(part, words), word.reshape(-1))
        row = np.cumsum(np.diff(parts, prepend=parts[:1]) != 0)
        places = row * BANKS + touched % BANKS
        counts = np.bincount(places, minlength=(int(row[-1]) + 1) * BANKS).reshape(-1, BANKS)
        self.shared_wavefronts += int(counts.max(axis=1).sum())
        self.shared_accesses += len(counts)


def _sectors(warps: Array, addresses: Array, size: int) -> int:
    """Return the number of distinct sectors that each warp accesses, summed."""
    start = addresses.astype(np.uint64)
    first = start // np.uint64(SECTOR_BYTES)
    last = (start + np.uint64(size - 1)) // np.uint64(SECTOR_BYTES)
    both = np.concatenate([first, last]).astype(np.int64)
    return len(_distinct_pairs(np.tile(warps, 2), both)[0])


def _distinct_pairs(first: Array, second: Array) -> tuple[Array, Array]:
    """Return the sorted distinct pairs of two arrays; `np.unique` of rows is slower."""
    order = np.lexsort((second, first))
    first, second = first[order], second[order]
    new = np.ones(len(first), bool)
    new[1:] = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
    return first[new], second[new]
