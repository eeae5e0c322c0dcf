"""Which devices of a job wait for each other for good; decided from where all of them are."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hloc.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Position:
    """Where a device is.

    Attributes:
        run: number of the run that it is in, or ended last.
        visits: how often it has come to each meeting (`meetings` in `call_lists.py`).
        meeting: which one it is in, -1 if in none.
        awaited: the meeting to which its peers must come, the same save where it receives.
        exchange: number of the exchange it came by.
        is_over: it has ended the run.
    """

    run: int
    visits: tuple[int, ...] = ()
    meeting: int = -1
    exchange: int = -1
    awaited: int = -1
    is_over: bool = False

    @property
    def waits(self) -> bool:
        return self.meeting >= 0 and not self.is_over


Peers = Callable[[int, int], tuple[int, ...]]
"""Devices without which a device cannot end an exchange, by number of the exchange and device."""


def stuck_devices(
    before: Mapping[int, Position], now: Mapping[int, Position], peers: Peers
) -> tuple[int, ...]:
    """Return the devices that will never go on.

    A device is stuck if it waits for a peer that will never come: that one has ended the run, or
    is stuck elsewhere. A device all of whose peers have come is only slow.

    Args:
        before: positions of all devices.
        now: all of them taken later than any of `before`, so what is equal in both was so at one
            moment.
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
    if position is None or position.visits[place.awaited] >= place.visits[place.meeting]:
        return False
    return position.run >= place.run if position.is_over else peer in stuck
