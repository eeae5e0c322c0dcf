"""Deadlock detection of a job, from the positions of all devices."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hloc.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Position:
    """The position of a device.

    Attributes:
        run: number of the run that it is in, or ended last.
        visits: number of visits to each rendezvous (`rendezvous_numbers` in `call_lists.py`).
        rendezvous: the rendezvous that it is in, -1 if none.
        awaited: the rendezvous of its peers: the same, except for a receive.
        exchange: number of its exchange.
        is_over: it has ended the run.
    """

    run: int
    visits: tuple[int, ...] = ()
    rendezvous: int = -1
    exchange: int = -1
    awaited: int = -1
    is_over: bool = False

    @property
    def waits(self) -> bool:
        return self.rendezvous >= 0 and not self.is_over


Peers = Callable[[int, int], tuple[int, ...]]
"""Devices that must take part in an exchange, by number of the exchange and device."""


def stuck_devices(
    before: Mapping[int, Position], now: Mapping[int, Position], peers: Peers
) -> tuple[int, ...]:
    """Return the devices that are deadlocked.

    A device is stuck if it waits for a peer that will never arrive: that one has ended the run, or
    is stuck elsewhere. A device all of whose peers have arrived is only slow.

    Args:
        before: positions of all devices.
        now: positions taken later than all of `before`, so those that are equal in both held at
            one moment.
        peers: of a device in an exchange.
    """
    stuck = {d for d, p in now.items() if p.waits and before.get(d) == p}
    while True:
        freed = {
            device
            for device in stuck
            if not any(
                _never_comes(now, stuck, peer, now[device])
                for peer in peers(now[device].exchange, device)
            )
        }
        if not freed:
            return tuple(sorted(stuck))
        stuck -= freed


def _never_comes(now: Mapping[int, Position], stuck: set[int], peer: int, place: Position) -> bool:
    position = now.get(peer)
    if position is None or position.visits[place.awaited] >= place.visits[place.rendezvous]:
        return False
    return position.run >= place.run if position.is_over else peer in stuck
