"""What is agreed between a fork server and those who ask it; imports nothing of Unix."""

from __future__ import annotations

from hloc.lazy_dataclass import dataclass

MESSAGE_BYTES = 4096
"""Of a request, or of what is told of a process."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a confined process may take.

    Attributes:
        memory_bytes: of address space.
        cpu_seconds: of processor time, over its whole life.
        file_bytes: of its own folder, and of each file.
        threads: beside the first; 0 for none.
    """

    memory_bytes: int
    cpu_seconds: int
    file_bytes: int
    threads: int = 0
