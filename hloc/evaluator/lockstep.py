"""Devices as threads that run one at a time, in a fixed order.

A device runs until it waits for others or ends; then the next device that can run takes its turn.
Results and errors are therefore the same in every run, and a deadlock is found at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

_INTERRUPT_SECONDS = 0.1
"""Polling interval for a Ctrl-C that another thread received."""


class Cancelled(BaseException):
    """Ends the thread of a device after the run was cancelled; `except Exception` lets it pass."""


class Lockstep(Generic[T]):
    """Runs one function per device.

    Args:
        count: how many devices.
        stuck: returns the error for a deadlock.
    """

    def __init__(self, count: int, stuck: Callable[[], Exception]) -> None:
        self._count = count
        self._stuck = stuck
        self._turns = [threading.Semaphore(0) for _ in range(count)]
        self._waiting = [False] * count
        self._ended = [False] * count
        self._over = threading.Event()
        self._failure: BaseException | None = None
        self._cancelled = False

    def run(self, body: Callable[[int], T]) -> list[T]:
        """Return the result of `body` for each device; raises the first error of a device."""
        results: list[T] = []
        slots: dict[int, T] = {}
        threads = [
            threading.Thread(target=self._thread, args=(body, device, slots), daemon=True)
            for device in range(self._count)
        ]
        try:
            for thread in threads:
                thread.start()
            self._turns[0].release()
            while not self._over.wait(_INTERRUPT_SECONDS):
                pass
        finally:  # also after Ctrl-C, which is raised in the thread that waits here
            self._cancelled = True
            for turn in self._turns:
                turn.release()
            for thread in threads:
                if thread.ident is not None:
                    thread.join()
        if self._failure is not None:
            raise self._failure
        results += (slots[device] for device in range(self._count))
        return results

    def has_ended(self, device: int) -> bool:
        """Return whether a device has finished its program."""
        return self._ended[device]

    def check_going_on(self) -> None:
        """Raise `Cancelled` if the run was cancelled."""
        if self._cancelled:
            raise Cancelled

    def wait(self, device: int) -> None:
        """Let other devices run until one calls `wake(device)`; called by the running device."""
        self._waiting[device] = True
        self._pass_on(device)
        self._turns[device].acquire()
        self.check_going_on()

    def wake(self, device: int) -> None:
        """Let a waiting device continue when its turn comes."""
        self._waiting[device] = False

    def _thread(self, body: Callable[[int], T], device: int, slots: dict[int, T]) -> None:
        self._turns[device].acquire()
        try:
            self.check_going_on()
            slots[device] = body(device)
            self._ended[device] = True
            self._pass_on(device)
        except Cancelled:
            pass
        except BaseException as error:  # raised again in `run`
            self._fail(error)

    def _pass_on(self, device: int) -> None:
        """Give the turn to the next device that can run."""
        for step in range(1, self._count + 1):
            other = (device + step) % self._count
            if not self._waiting[other] and not self._ended[other]:
                self._turns[other].release()
                return
        if all(self._ended):
            self._over.set()
        else:
            self._fail(self._stuck())

    def _fail(self, error: BaseException) -> None:
        if self._failure is None:
            self._failure = error
        self._cancelled = True
        self._over.set()
