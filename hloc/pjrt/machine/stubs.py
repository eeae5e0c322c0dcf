"""The structures and enums of the plug-in's sources, for readers and type checkers.

A structure's name (`objects.py`, `abi_table.py`) is the type of pointers to it.
`Error_Code_.INTERNAL` is a member of the enum `PJRT_Error_Code`.
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

Error_Code_: Any = None
HostBufferSemantics_: Any = None
Buffer_MemoryLayout_Type_: Any = None
