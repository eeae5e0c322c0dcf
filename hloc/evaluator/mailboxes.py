"""Point-to-point transfers between devices: values sent and not yet received, first in, first out.

`send` does not wait. `recv` takes a ticket, which its context `u32[]` carries to the `recv-done`,
possibly through the state of a loop; the `recv-done` waits.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable

from hloc.ir.opcode import HostValue
from hloc.lazy_dataclass import dataclass


@dataclass(slots=True)
class _Ticket:
    source: int
    value: HostValue = None
    has_come: bool = False
    wake: Callable[[], None] | None = None


class Mailboxes:
    """Values in transit, by channel, source and target."""

    def __init__(self) -> None:
        self._sent: defaultdict[tuple[int, int, int], deque[HostValue]] = defaultdict(deque)
        self._expected: defaultdict[tuple[int, int, int], deque[_Ticket]] = defaultdict(deque)
        self._tickets: list[_Ticket] = []

    def send(self, channel: int, source: int, target: int, value: HostValue) -> None:
        """Send a value to the oldest waiting ticket, or queue it for the next one."""
        waiting = self._expected[channel, source, target]
        if waiting:
            _deliver(waiting.popleft(), value)
        else:
            self._sent[channel, source, target].append(value)

    def expect(self, channel: int, source: int, target: int) -> int:
        """Return a ticket for the next value from `source`."""
        ticket = _Ticket(source)
        self._tickets.append(ticket)
        sent = self._sent[channel, source, target]
        if sent:
            _deliver(ticket, sent.popleft())
        else:
            self._expected[channel, source, target].append(ticket)
        return len(self._tickets) - 1

    def known(self, value: HostValue) -> int:
        """Return a ticket for a value that no device sends."""
        self._tickets.append(_Ticket(-1, value, has_come=True))
        return len(self._tickets) - 1

    def source_of(self, ticket: int) -> int:
        """Return the device that a ticket waits for."""
        return self._tickets[ticket].source

    def has_come(self, ticket: int) -> bool:
        """Tell whether the value of a ticket has arrived."""
        return self._tickets[ticket].has_come

    def wake_on(self, ticket: int, wake: Callable[[], None]) -> None:
        """Call `wake` when the value of a ticket arrives."""
        self._tickets[ticket].wake = wake

    def take(self, ticket: int) -> HostValue:
        """Return the value of a ticket and drop the ticket."""
        value, self._tickets[ticket].value = self._tickets[ticket].value, None
        return value


def _deliver(ticket: _Ticket, value: HostValue) -> None:
    ticket.value, ticket.has_come = value, True
    if ticket.wake is not None:
        ticket.wake()
