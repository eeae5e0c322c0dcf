"""A time limit for Python code that may never end, such as the evaluator in an endless loop."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SOON = 1e-3


class TookTooLong(Exception):
    """The time was over."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `TookTooLong` inside after `seconds`; no limit where the system has no alarm signal.

    Python allows signal handlers in the main thread only; elsewhere there is no limit either. Of
    limits one inside the other, the one that is over first counts.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or not hasattr(signal, "setitimer"):
        yield
        return

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise TookTooLong

    before = signal.signal(signal.SIGALRM, ring)
    outer, _ = signal.setitimer(signal.ITIMER_REAL, seconds)
    if 0.0 < outer < seconds:
        signal.setitimer(signal.ITIMER_REAL, outer)
    started = time.monotonic()
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
        if outer > 0.0:
            left = outer - (time.monotonic() - started)
            signal.setitimer(signal.ITIMER_REAL, max(left, _SOON))
