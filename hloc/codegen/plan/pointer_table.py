"""The pointer table of a program: what each slot holds.

A program loaded from the cache needs only this part of its plan, so this file imports no emitters,
which take long to import.
"""

from __future__ import annotations

from hloc.lazy_dataclass import dataclass
from hloc.memory.allocation import ARENA, CONSTANT, OUTPUT, PARAMETER, Slice

ENTRY = "hloc_entry"
"""The one exported function."""

ARENA_SLOT, STOP_SLOT, THREADS_SLOT, DEVICE_SLOT, FIRST_SLOT = 0, 1, 2, 3, 4
"""Slots of the arena, the flag that ends loops early, the threads of a run, the state of the device
in a run of several, and all that follows.

For threads see `split_routine`; a null pointer there means one thread. The state of a device begins
with its function `exchange` (`plan/exchange.py`), then the device's numbers; it is null for
programs that need neither.
"""

REPLICA_OFFSET, PARTITION_OFFSET = 8, 12
"""Offsets of replica and partition number in the state of a device, `u32[]` each."""


@dataclass(frozen=True, slots=True)
class Place:
    """Memory at `offset` bytes from the pointer in `slot` of the table."""

    slot: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class TableLayout:
    """Slots of the pointer table, counted from 0."""

    constants: int
    parameters: int
    outputs: int
    host_functions: int

    @property
    def first_parameter(self) -> int:
        return FIRST_SLOT + self.constants

    @property
    def first_output(self) -> int:
        return self.first_parameter + self.parameters

    @property
    def first_host_function(self) -> int:
        return self.first_output + self.outputs

    @property
    def size(self) -> int:
        return self.first_host_function + self.host_functions

    def place(self, found: Slice) -> Place:
        """Return the place of a slice of a buffer assignment."""
        first = {
            ARENA: ARENA_SLOT,
            CONSTANT: FIRST_SLOT,
            PARAMETER: self.first_parameter,
            OUTPUT: self.first_output,
        }
        return Place(first[found.kind] + found.number, found.offset)
