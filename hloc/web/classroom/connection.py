"""Connections that are not held open by those who ask nothing, or ask slowly."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

from hloc.web.classroom import limits


class Connection(H11Protocol):
    """A connection that is closed unless the head of a request arrives in time."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin to wait, or close one connection too many."""
        super().connection_made(transport)
        own = sum(other.client[:1] == self.client[:1] for other in self.connections if other.client)
        if len(self.connections) > limits.CONNECTIONS or own > limits.CONNECTIONS_OF_ONE:
            transport.abort()
            return
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Take what has arrived; a whole head ends the waiting."""
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            self._wait()
        else:
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(limits.REQUEST_SECONDS, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
