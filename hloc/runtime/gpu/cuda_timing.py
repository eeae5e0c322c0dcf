"""Times of launches on a CUDA device, measured with events."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from hloc.runtime.gpu.cuda_driver import CudaDriver


class LaunchTimes(threading.local):
    """The measurements of one thread; other threads have their own.

    Attributes:
        wanted: whether launches are to be timed.
        reports: name of the function and seconds, one per launch.
    """

    def __init__(self) -> None:
        """Measure nothing; runs once in every thread."""
        self.wanted = False
        self.reports: list[tuple[str, float]] = []


def seconds_on(
    driver: CudaDriver, stream: Any, ask: Callable[[], None], wait: Callable[[], None]
) -> float:
    """Return the seconds on a stream of the work that `ask` enqueues; `wait` waits for it.

    Raises:
        CudaError: a driver call or a kernel fails.
    """
    begin, end = (driver.call("cuEventCreate", 0) for _ in range(2))
    try:
        driver.call("cuEventRecord", begin, stream)
        ask()
        driver.call("cuEventRecord", end, stream)
        wait()
        return float(driver.call("cuEventElapsedTime", begin, end)) / 1e3
    finally:
        for event in (begin, end):
            driver.attempt("cuEventDestroy", event)
