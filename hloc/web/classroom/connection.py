"""Connections with a time limit, so that silent or slow clients cannot hold them open."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

from hloc.web.classroom import limits


class Connection(H11Protocol):
    """A connection that is closed unless the head of a request arrives in time."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Start the timer, or close the connection if there are too many."""
        super().connection_made(transport)
        own = sum(other.client[:1] == self.client[:1] for other in self.connections if other.client)
        if len(self.connections) > limits.CONNECTIONS or own > limits.CONNECTIONS_OF_ONE:
            transport.abort()
            return
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        """Process data; a complete request head stops the timer."""
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            self._start_timer()
        else:
            self._stop_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._stop_timer()
        super().connection_lost(exc)

    def _start_timer(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(limits.REQUEST_SECONDS, self.transport.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
