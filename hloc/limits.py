"""Limits of hloc's inputs and resources: one row per limit.

`--limit=NAME=N` changes one for a command, `HLOC_LIMITS=NAME=N,NAME=N` for a process, and
`with limited(name=n):` for a part of a Python program. 0 removes a time limit.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field, fields, replace
from functools import cache
from typing import Any

from hloc.errors import HloError
from hloc.lazy_dataclass import dataclass
from hloc.near_names import did_you_mean

VARIABLE = "HLOC_LIMITS"
"""Environment variable with the limits of a process."""

_FACTORS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_MOST_DIGITS = 15


def _row(default: int, what: str) -> Any:
    return field(default=default, metadata={"what": what})


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one use of hloc; each name ends with its unit."""

    input_bytes: int = _row(2 << 30, "of a text or file that is read, unpacked")
    constant_bytes: int = _row(8 << 30, "of one constant in a text")
    evaluated_bytes: int = _row(4 << 30, "of one result in the reference evaluator")
    evaluated_instructions: int = _row(
        100_000_000, "that the reference evaluator runs for one module, calls and loops included"
    )
    compile_seconds: int = _row(0, "that the passes take, and that LLVM takes, for one module")
    run_seconds: int = _row(0, "that one run takes, of compiled code or in the evaluator")

    def __post_init__(self) -> None:
        for row in fields(Limits):
            value = getattr(self, row.name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise HloError(f"the limit {row.name} is a whole number, not {value!r}")


@dataclass(frozen=True, slots=True)
class LimitRow:
    """A limit for users: its name `run-seconds`, its default, and what it bounds."""

    name: str
    default: int
    what: str


def _limit_row(name: str, default: Any, what: str) -> LimitRow:
    return LimitRow(name.replace("_", "-"), default, f"{name.split('_')[1]} {what}")


LIMIT_ROWS = tuple(
    _limit_row(row.name, row.default, row.metadata["what"]) for row in fields(Limits)
)

_CHOSEN: ContextVar[Limits | None] = ContextVar("limits", default=None)
_OF_PROCESS: list[Limits] = []


def current_limits() -> Limits:
    """Return the limits in effect.

    Raises:
        HloError: HLOC_LIMITS cannot be read.
    """
    chosen = _CHOSEN.get()
    if chosen is not None:
        return chosen
    return _OF_PROCESS[0] if _OF_PROCESS else _from_environment(os.environ.get(VARIABLE, ""))


@cache
def _from_environment(text: str) -> Limits:
    try:
        return replace(Limits(), **read_limits(text))
    except ValueError as fault:
        raise HloError(f"{VARIABLE}: {fault}") from None


@contextmanager
def process_limits(changes: dict[str, int]) -> Iterator[None]:
    """Change limits in the block, on all threads, for the options of a command."""
    before = list(_OF_PROCESS)
    _OF_PROCESS[:] = [replace(current_limits(), **changes)] if changes else before
    try:
        yield
    finally:
        _OF_PROCESS[:] = before


@contextmanager
def limited(**changes: int) -> Iterator[None]:
    """Change limits, such as `run_seconds=60`, in the block, but not on threads started there.

    Raises:
        HloError: there is no such limit, or its value is not a number.
    """
    for name in changes:
        if name not in Limits.__slots__:
            raise HloError(f"there is no limit {name}{did_you_mean(name, Limits.__slots__)}")
    token = _CHOSEN.set(replace(current_limits(), **changes))
    try:
        yield
    finally:
        _CHOSEN.reset(token)


def read_limits(text: str) -> dict[str, int]:
    """Return the limits in `run-seconds=60,input-bytes=4G` by the names of the fields.

    Raises:
        ValueError: an unknown limit, or a value that is not a number.
    """
    known = [row.name for row in LIMIT_ROWS]
    found: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = (piece.strip() for piece in part.partition("="))
        if name not in known:
            raise ValueError(
                f"expected NAME=N with NAME one of {', '.join(known)}, found "
                f"{part[:60]!r}{did_you_mean(name, known)}"
            )
        factor = _FACTORS.get(value[-1:], 1)
        digits = value if factor == 1 else value[:-1]
        if not (digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS):
            raise ValueError(f"expected a whole number for {name}, found {value[:60]!r}")
        found[name.replace("-", "_")] = int(digits) * factor
    return found


def time_check(name: str, what: str) -> Callable[[], None]:
    """Return a function that raises HloError, with `what` as subject, after the limit `name`."""
    seconds: int = getattr(current_limits(), name.replace("-", "_"))
    if not seconds:
        return lambda: None
    end = time.monotonic() + seconds

    def check() -> None:
        if time.monotonic() > end:
            raise time_fault(name, what, seconds)

    return check


def time_fault(name: str, what: str, seconds: int) -> HloError:
    """Return the error for something that exceeded the time limit `name`."""
    return HloError(f"{what} took longer than {seconds} s", notes=(limit_note(name),))


def limit_note(name: str) -> str:
    """Return the advice in a message about the limit `name`."""
    return f"--limit={name}=N or {VARIABLE}={name}=N changes the limit"
