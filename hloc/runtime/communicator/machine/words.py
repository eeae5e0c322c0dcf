"""The names that the machine code's sources use, for readers and type checkers; nothing here runs.

A structure's name (`communicator/structures.py`) is the type of pointers to it; `state` is the only
`State` of the process. `Stop_.FAULT` is a member of an enum.
"""

from __future__ import annotations

from typing import Any, TypeAlias

Address: TypeAlias = Any
Device: TypeAlias = Any
Exchange: TypeAlias = Any
Meeting: TypeAlias = Any
Message: TypeAlias = Any
Pieces: TypeAlias = Any
Run: TypeAlias = Any
Words: TypeAlias = Any
Worker: TypeAlias = Any
World: TypeAlias = Any

state: Any = None
Opcode_: Any = None
Stop_: Any = None


def _word(*_: Any) -> Any:
    raise NotImplementedError("machine code is translated, not run")


at = _word
"""`at(meeting.phase)`: the address of a field or an element."""
function = _word
"""`function(worker)`: the address of a function of this unit."""
size_of = _word
cast = _word
"""`cast(Worker, address)`: the address as one of a structure, or of a C type in quotes."""
call = _word
"""`call(address, x, y)`: call the C function at an address."""
exchange = _word
"""`exchange(meeting.phase, value)`: store atomically, return the old value."""
atomic_add = _word
"""`atomic_add(meeting.arrived, 1)`: add atomically, return the old value."""
atomic_load = _word
"""`atomic_load(meeting.phase)`: load with acquire semantics."""
stack = _word
"""`stack(n)`: n words on the stack of this call."""

sleep = _word
"""`sleep(address, value)`: sleep until woken, unless the word differs from `value`."""
wake = _word
"""`wake(address, count)`: end the sleep of at most `count` threads."""
pause = _word
"""The spin-wait hint of a thread that polls a word."""

malloc = free = memcpy = memset = clock_gettime = sched_yield = _word
pthread_create = pthread_sigmask = sigfillset = _word
