"""What a fork server and its clients share; imports no module that only Unix has."""

from __future__ import annotations

from hloc.lazy_dataclass import dataclass

MESSAGE_BYTES = 4096
"""Largest request, and largest report about a process."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Resource limits of a confined process.

    Attributes:
        memory_bytes: of address space.
        cpu_seconds: of processor time, over its whole life.
        file_bytes: of its writable folder, and of each file.
        threads: besides the first; 0 for none.
    """

    memory_bytes: int
    cpu_seconds: int
    file_bytes: int
    threads: int = 0
