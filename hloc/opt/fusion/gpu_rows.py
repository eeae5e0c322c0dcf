"""When a GPU kernel should work row by row."""

from __future__ import annotations

from hloc.analysis.gpu_devices import DeviceSpec
from hloc.analysis.gpu_performance import LAUNCH_SECONDS, Threads
from hloc.analysis.rows import Rows

LONGEST_ROW = 1 << 16
"""Elements of the longest row with a kernel."""

_MOST_THREADS = 1024
_IN_REGISTERS = 8
"""Most threads per row, and elements per thread, all in registers."""

_ELEMENT_BYTES = 4
"""Bytes of an element of any type: an estimate."""

_STAGES = 3
"""Number of kernels of softmax and norms otherwise, each of which reads the rows again."""


def why_not_rows_on_gpu(rows: Rows, device: DeviceSpec) -> str:
    """Return why a GPU should not work row by row, "" if it may.

    A row has one block of threads at most, so that a few long rows leave most of a GPU idle.
    """
    if rows.size > LONGEST_ROW:
        return f"a row of {rows.size} elements is too long for the threads of a block"
    size = rows.elements * _ELEMENT_BYTES
    threads = rows.count * min(-(-rows.size // _IN_REGISTERS), _MOST_THREADS)
    alone = 2 * size / Threads(threads).bandwidth(device)
    apart = 2 * size / Threads(rows.elements / _IN_REGISTERS).bandwidth(device) + LAUNCH_SECONDS
    if alone > _STAGES * apart:
        return f"{rows.count} rows of {rows.size} elements leave most of the device idle"
    return ""
