"""The names that the machine code's sources use, for readers and type checkers; nothing here runs.

A structure's name (`objects.py`, `abi_table.py`) is the type of pointers to it; `state` is the only
`State` of the process. `Error_Code_.INTERNAL` is a member of the enum `PJRT_Error_Code`.
"""

from __future__ import annotations

from typing import Any, TypeAlias

Address: TypeAlias = Any
Args: TypeAlias = Any
"""The arguments of a function of the C API, a structure named after it."""

Buffers: TypeAlias = Any
PJRT_Buffer: TypeAlias = Any
PJRT_Buffer_MemoryLayout: TypeAlias = Any
PJRT_Client_BufferFromHostBuffer_Args: TypeAlias = Any
PJRT_LoadedExecutable_Execute_Args: TypeAlias = Any
PJRT_Device: TypeAlias = Any
PJRT_Error: TypeAlias = Any
PJRT_Event: TypeAlias = Any
PJRT_Executable: TypeAlias = Any
PJRT_Layouts_MemoryLayout: TypeAlias = Any
PJRT_Layouts_SerializedLayout: TypeAlias = Any
PJRT_Memory: TypeAlias = Any
PJRT_ExecuteContext: TypeAlias = Any
Run: TypeAlias = Any
State: TypeAlias = Any
Storage: TypeAlias = Any
Storages: TypeAlias = Any
Threads: TypeAlias = Any
Waiter: TypeAlias = Any
Words: TypeAlias = Any

state: Any = None
Error_Code_: Any = None
HostBufferSemantics_: Any = None
Buffer_MemoryLayout_Type_: Any = None


def _word(*_: Any) -> Any:
    raise NotImplementedError("machine code is translated, not run")


at = _word
"""`at(buffer.event)`: the address of a field or an element."""
function = _word
"""`function(worker)`: the address of a function of this unit."""
size_of = _word
cast = _word
"""`cast(Storage, address)`: the address as one of a structure."""
call = _word
"""`call(address, x, y)`: call the C function at an address."""
exchange = _word
"""`exchange(executable.arena, value)`: store atomically, return the old value."""
atomic_add = _word
"""`atomic_add(storage.refs, 1)`: add atomically, return the old value."""
atomic_max = _word
atomic_load = _word
"""`atomic_load(event.state)`: load with acquire semantics."""
twin = _word
"""`return twin(args)`: leave the call to the Python function of the same name."""
text = _word
"""`fail(code, *text("..."))`: the address and the size of a constant text."""
stack = _word
"""`stack(n)`: n words on the stack of this call."""

malloc = aligned_alloc = free = memcpy = clock_gettime = _word
pthread_mutex_init = pthread_mutex_lock = pthread_mutex_unlock = pthread_create = _word
pthread_cond_init = pthread_cond_wait = pthread_cond_signal = pthread_cond_broadcast = _word
