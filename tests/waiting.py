"""Waiting for events, and processor time: no test measures wall time.

A busy machine stretches wall time without limit, so a test waits for what should happen, and
`PATIENCE` only ends a test that would hang. Where work must not grow, processor time bounds it.
"""

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PATIENCE = 600
"""Seconds after which what a test waits for will never happen."""

_PAUSE = 0.01


def wait_until(happened: Callable[[], object], what: str) -> None:
    """Return once `happened()` is true.

    Raises:
        pytest.fail.Exception: it is not within `PATIENCE` seconds.
    """
    end = time.monotonic() + PATIENCE
    while not happened():
        if time.monotonic() > end:
            pytest.fail(f"{what}: not within {PATIENCE:g} s")
        time.sleep(_PAUSE)


@contextmanager
def again_and_again(stop: Callable[[], object]) -> Iterator[None]:
    """Call `stop` on another thread until what is inside has ended.

    Once might be too early: on a busy machine the other thread may go first.
    """
    ended = threading.Event()

    def call() -> None:
        while not ended.wait(10 * _PAUSE):
            stop()

    thread = threading.Thread(target=call)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def all_at_once(count: int, call: Callable[[int], object]) -> None:
    """Call `call(0)` to `call(count - 1)`, each on a thread of its own; return after the last."""
    threads = [threading.Thread(target=call, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def processor_seconds(pid: int) -> float:
    """Return the processor time that a running process has used, its threads included."""
    stat = Path(f"/proc/{pid}/stat")
    if stat.exists():
        fields = stat.read_text().rpartition(")")[2].split()  # proc(5): utime and stime, in ticks
        return (int(fields[11]) + int(fields[12])) / 100
    shown = subprocess.run(
        ["ps", "-o", "time=", "-p", str(pid)], capture_output=True, text=True, check=True
    )
    seconds = 0.0
    for part in shown.stdout.strip().split(":"):
        seconds = 60 * seconds + float(part)
    return seconds


def wait_for_work(pid: int, seconds: float) -> None:
    """Return once a process has used `seconds` of processor time more than now."""
    before = processor_seconds(pid)
    wait_until(lambda: processor_seconds(pid) - before >= seconds, f"process {pid} works")


def children(pid: int) -> list[int]:
    """Return the numbers of the processes that a process has started, as far as they run."""
    shown = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True
    )
    pairs = (line.split() for line in shown.stdout.splitlines())
    return [int(child) for child, parent in pairs if int(parent) == pid]
