"""The names that `scheduler.py` uses, for readers and type checkers; nothing here runs.

A structure's name (`structures.py`) is the type of pointers to it; `state` is the only `State`.
`Fault_.WARP_PARTED` is a member of an enum.
"""

from __future__ import annotations

from typing import Any, TypeAlias

Launch: TypeAlias = Any
Word: TypeAlias = Any

state: Any = None
Fault_: Any = None
Size_: Any = None
Waits_: Any = None


def _word(*_: Any) -> Any:
    raise NotImplementedError("machine code is translated, not run")


at = _word
"""`at(slots[i])`: the address of an element."""
cast = _word
"""`cast("uint32_t*", address)`: the address as one of a C type."""
call = _word
"""`call(address, x, y)`: call the C function at an address."""
host_resume = _word
"""`host_resume(handle)`: resume a coroutine."""

memcpy = memset = _word
