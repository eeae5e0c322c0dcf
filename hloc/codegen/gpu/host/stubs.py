"""The structures and functions that `scheduler.py` uses, for readers and type checkers.

A structure's name (`structures.py`) is the type of pointers to it. `Fault_.WARP_PARTED` is a member
of an enum.
"""

from __future__ import annotations

from typing import Any, TypeAlias

Launch: TypeAlias = Any
Word: TypeAlias = Any

Fault_: Any = None
Size_: Any = None
Waits_: Any = None


def host_resume(_handle: Word) -> None:
    """Resume a coroutine (`build.py`)."""
