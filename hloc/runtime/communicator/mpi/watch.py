"""The watchdog of a job: a thread per process that detects deadlocks.

A process whose device waits long notifies process 0, which then asks all processes twice for the
positions of their devices (`positions.py`). Nothing is sent while no device waits. Process 0 ends
the job.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from hloc.errors import HloError
from hloc.runtime.communicator.mpi.positions import Peers, Position, stuck_devices

_TICK = 0.05  # seconds
_MOVING_TICK = 0.001
"""Some MPI libraries move data only inside calls."""

_PATIENCE = 0.25
_ANSWER_TIME = 1.0
_CALL, _ASK, _ANSWER = 1, 2, 3  # tags


class Watched(Protocol):
    """The devices that a watch observes."""

    @property
    def positions(self) -> Mapping[int, Position]:
        """The positions of the devices of this process."""

    @property
    def peers(self) -> Peers:
        """The devices that must take part in an exchange."""

    @property
    def is_sending(self) -> bool:
        """Whether finished devices of this process still send data to others."""

    def deadlock(self, positions: Mapping[int, Position]) -> HloError:
        """Return the error of a deadlock."""

    def overdue(self, positions: Mapping[int, Position]) -> HloError:
        """Return the error of a device that has waited for too long."""


class Watch:
    """The thread of one process."""

    def __init__(
        self,
        mpi: Any,
        control: Any,
        watched: Watched,
        give_up: Callable[[HloError], None],
        limit_seconds: float,
    ) -> None:
        """Begin to watch.

        Args:
            mpi: the module `mpi4py.MPI`.
            control: a communicator of all processes that nothing else uses.
            watched: the devices of this process.
            give_up: ends the job; called on process 0.
            limit_seconds: longest wait of a device in one exchange, 0 for no limit.
        """
        self._mpi, self._control, self._watched = mpi, control, watched
        self._give_up, self._limit = give_up, limit_seconds
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._work, name="hloc-mpi-watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread; all processes have reached the end of their work."""
        self._end.set()
        self._thread.join()

    def _work(self) -> None:
        since: dict[int, tuple[Position, float]] = {}
        called = 0.0
        while not self._end.wait(_MOVING_TICK if self._watched.is_sending else _TICK):
            now = time.monotonic()
            for device, position in dict(self._watched.positions).items():
                if since.get(device, (None,))[0] != position:
                    since[device] = position, now
            waits = [now - start for position, start in since.values() if position.waits]
            if waits and max(waits) > _PATIENCE and now - called > 2 * _PATIENCE:
                called = now
                self._send(max(waits), 0, _CALL)
            self._answer()
            if self._control.rank == 0:
                self._look()

    def _send(self, data: Any, target: int, tag: int) -> None:
        self._control.send(data, target, tag)  # small: it does not wait for the receiver

    def _received(self, tag: int) -> tuple[Any, int] | None:
        """Return a message that has arrived, and its sender; None if there is none."""
        status = self._mpi.Status()
        if not self._control.iprobe(tag=tag, status=status):
            return None
        return self._control.recv(source=status.source, tag=tag), int(status.source)

    def _answer(self) -> None:
        while (message := self._received(_ASK)) is not None:
            self._send((message[0], dict(self._watched.positions)), message[1], _ANSWER)

    def _look(self) -> None:
        """On process 0: if a process waits, ask all processes twice for their positions."""
        longest = 0.0
        while (message := self._received(_CALL)) is not None:
            longest = max(longest, message[0])
        if not longest:
            return
        before = self._ask_all(1)
        now = self._ask_all(2)
        if before is None or now is None:
            return
        if stuck := stuck_devices(before, now, self._watched.peers):
            over = {device: p for device, p in now.items() if p.is_over}
            self._give_up(self._watched.deadlock({**over, **{d: now[d] for d in stuck}}))
        elif self._limit and longest > self._limit:
            self._give_up(self._watched.overdue(now))

    def _ask_all(self, round_: int) -> dict[int, Position] | None:
        """Return the positions of all devices, None if a process does not answer."""
        for rank in range(self._control.size):
            self._send(round_, rank, _ASK)
        end = time.monotonic() + _ANSWER_TIME
        found: dict[int, Position] = {}
        left = self._control.size
        while left and time.monotonic() < end:
            self._answer()
            message = self._received(_ANSWER)
            if message is None:
                time.sleep(_TICK / 10)
            elif message[0][0] == round_:
                found.update(message[0][1])
                left -= 1
        return None if left else found
