"""Hardware performance counters: cycles, instructions, cache misses.

Linux only, by the system call perf_event_open(2), without a package. Virtual machines and
containers often provide no counters; `CountersMissing` says why.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field

from hloc.lazy_dataclass import dataclass

Event = tuple[int, int]
"""Type and number of the system call."""

HARDWARE: Mapping[str, Event] = {
    "cycles": (0, 0),
    "instructions": (0, 1),
    "cache misses": (0, 3),
    "branch misses": (0, 5),
}

_SYSTEM_CALLS = {"x86_64": 298, "aarch64": 241}
_ATTRIBUTES = struct.Struct("<IIQQQQQIIQ")
"""`struct perf_event_attr` of its first version: type, size, config, ..., flags, ..."""

_DISABLED, _EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR = 1 << 0, 1 << 5, 1 << 6
_TIMES = 1 | 2
"""Also read the times for which a counter was enabled and running."""

_NO_LEAVE = "not allowed; see /proc/sys/kernel/perf_event_paranoid"
_REASONS = {
    errno.ENOENT: "the processor, or the virtual machine around it, shows none",
    errno.EACCES: _NO_LEAVE,
    errno.EPERM: _NO_LEAVE,
}

_ENABLE, _DISABLE = 0x2400, 0x2401


class CountersMissing(Exception):
    """The counters are not available; the text says why."""


@dataclass(slots=True)
class Counts:
    """The result of `counting`, set at its end.

    Attributes:
        events: count of each event, on all threads together.
    """

    events: dict[str, int] = field(default_factory=dict)


@contextmanager
def counting(events: Mapping[str, Event] = HARDWARE) -> Iterator[Counts]:
    """Count user-space events of all existing threads of the process while the region runs.

    Raises:
        CountersMissing: the system has no counters, or does not permit their use.
    """
    files: dict[int, str] = {}
    counts = Counts()
    try:
        for thread in os.listdir("/proc/self/task") if sys.platform == "linux" else ("0",):
            for name, event in events.items():
                files[_opened(event, int(thread))] = name
        _switch(files, _ENABLE)
        yield counts
        _switch(files, _DISABLE)
        counts.events = dict.fromkeys(events, 0)
        for file, name in files.items():
            counts.events[name] += _read(file)
    finally:
        for file in files:
            os.close(file)


def _opened(event: Event, thread: int) -> int:
    """Return the descriptor of a disabled counter of one thread."""
    number = _SYSTEM_CALLS.get(platform.machine())
    if sys.platform != "linux" or number is None:
        raise CountersMissing("only Linux on x86-64 and AArch64 has them")
    kind, config = event
    flags = _DISABLED | _EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR
    attributes = _ATTRIBUTES.pack(kind, _ATTRIBUTES.size, config, 0, 0, _TIMES, flags, 0, 0, 0)
    system = ctypes.CDLL(None, use_errno=True)
    file: int = system.syscall(
        ctypes.c_long(number), attributes, ctypes.c_int(thread), ctypes.c_int(-1),
        ctypes.c_int(-1), ctypes.c_ulong(0),
    )  # fmt: skip
    if file < 0:
        fault = ctypes.get_errno()
        raise CountersMissing(_REASONS.get(fault, os.strerror(fault)))
    return file


def _switch(files: Iterable[int], how: int) -> None:
    for file in files:
        fcntl.ioctl(file, how, 0)


def _read(file: int) -> int:
    """Return a count, scaled up if counters were multiplexed."""
    count, enabled, running = struct.unpack("<QQQ", os.read(file, 24))
    return round(count * enabled / running) if running else 0
