"""The memory that a run needs, checked before any is allocated."""

from __future__ import annotations

from hloc.codegen.llvm.target import physical_memory_bytes
from hloc.errors import OutOfMemoryError
from hloc.memory.allocation import BufferReport


def check_memory(report: BufferReport, limit_bytes: int, extra_bytes: int = 0) -> None:
    """Check the memory of a run against `limit_bytes`, or if that is 0, this machine's memory.

    `extra_bytes` are needed in addition to those of `report`.

    Raises:
        OutOfMemoryError: the run needs more; the message has both numbers.
    """
    outputs = report.output_bytes + report.aliased_bytes  # donation is optional
    needed = report.arena_bytes + outputs + report.constant_bytes + extra_bytes
    limit = limit_bytes or physical_memory_bytes()
    if limit and needed > limit:
        whose = "the memory limit" if limit_bytes else "the memory of this machine"
        raise OutOfMemoryError(
            f"the module needs {needed} bytes to run, more than {whose}, {limit} bytes"
        )
