"""The structures and functions of the local engine's sources, for readers and type checkers.

A structure's name (`communicator/structures.py`) is the type of pointers to it. `Stop_.FAULT` is a
member of an enum.
"""

from __future__ import annotations

from typing import Any, TypeAlias

Address: TypeAlias = Any
Device: TypeAlias = Any
Exchange: TypeAlias = Any
Rendezvous: TypeAlias = Any
Message: TypeAlias = Any
Pieces: TypeAlias = Any
Run: TypeAlias = Any
Worker: TypeAlias = Any
World: TypeAlias = Any

Opcode_: Any = None
Stop_: Any = None


def sleep(_address: Address, _value: int) -> None:
    """Sleep until woken, unless the word at the address differs from the value (`waiting.py`)."""


def wake(_address: Address, _count: int) -> None:
    """End the sleep of at most this many threads."""


def pause() -> None:
    """The spin-wait hint of a thread that polls a word."""
