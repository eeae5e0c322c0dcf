"""Ctrl-C while a command starts or works: the process ends with 130, whatever else happens.

Python raises `KeyboardInterrupt` at any point. Inside an import, packages turn it into an
`ImportError`, or a callback of the import system loses it: there the process ends at once.
Elsewhere it is recorded, in case something catches it or raises another exception instead.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

_IMPORTING = "<frozen importlib"
_SEEN: list[bool] = []


def heed_interrupts(leave: Callable[[], NoReturn]) -> None:
    """Handle Ctrl-C from now on, unless the process ignores it or handles it already.

    `leave` ends the process.
    """
    _SEEN.clear()
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return

    def interrupted(_number: int, frame: FrameType | None) -> NoReturn:
        _SEEN.append(True)
        if _is_importing(frame):
            leave()
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupted)


def was_interrupted() -> bool:
    """Return whether Ctrl-C was pressed since `heed_interrupts`."""
    return bool(_SEEN)


def forget_interrupts() -> None:
    """Restore Python's handling of Ctrl-C, for interactive programs, which continue after it.

    On other threads, such as those of JAX's compilations, handlers are not changed.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and (
        _SEEN or getattr(signal.getsignal(signal.SIGINT), "__module__", "") == __name__
    ):
        signal.signal(signal.SIGINT, signal.default_int_handler)
    _SEEN.clear()


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith(_IMPORTING):
            return True
        frame = frame.f_back
    return False
