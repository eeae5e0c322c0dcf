"""The names of `python_subset.py` that are not Python's, for readers and type checkers.

A file that is translated imports them from here, and the names of its structures from `stubs.py` of
its folder. Nothing in either runs.
"""

from __future__ import annotations

from typing import Any, TypeAlias

Words: TypeAlias = Any
"""The address of 64-bit integers."""

state: Any = None
"""The only structure `State` of the unit."""


def _built_in(*_: Any) -> Any:
    raise NotImplementedError("machine code is translated, not run")


at = _built_in
"""`at(rendezvous.phase)`, `at(slots[i])`: the address of a field or an element."""
function = _built_in
"""`function(worker)`: the address of a function of this unit."""
size_of = _built_in
cast = _built_in
"""`cast(Worker, address)`: the address as one of a structure, or of a C type in quotes."""
call = _built_in
"""`call(address, x, y)`: call the C function at an address."""
exchange = _built_in
"""`exchange(rendezvous.phase, value)`: store atomically, return the old value."""
atomic_add = _built_in
"""`atomic_add(rendezvous.arrived, 1)`: add atomically, return the old value."""
atomic_max = _built_in
atomic_load = _built_in
"""`atomic_load(rendezvous.phase)`: load with acquire semantics."""
python_fallback = _built_in
"""`return python_fallback(args)`: leave the call to the Python function of the same name."""
text = _built_in
"""`fail(code, *text("..."))`: the address and the size of a constant text."""
stack = _built_in
"""`stack(n)`: n words on the stack of this call."""

malloc = aligned_alloc = free = memcpy = memset = madvise = clock_gettime = sched_yield = _built_in
pthread_create = pthread_sigmask = sigfillset = _built_in
pthread_mutex_init = pthread_mutex_lock = pthread_mutex_unlock = _built_in
pthread_cond_init = pthread_cond_wait = pthread_cond_signal = pthread_cond_broadcast = _built_in
