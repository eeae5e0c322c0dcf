"""Which devices of a job wait for each other for good; decided from where all of them are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Position:
    """Where a device is.

    Attributes:
        run: number of the run that it is in, or ended last.
        meeting: which one it waits in (`meetings` in `call_lists.py`), -1 if in none.
        visit: how often it has come to that meeting.
        exchange: number of the exchange it came by.
        is_over: it has ended the run.
    """

    run: int
    meeting: int = -1
    visit: int = 0
    exchange: int = field(default=-1, compare=False)
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

    A device is stuck if it waits and one of its peers will never come: that one has ended the run,
    or is stuck somewhere else.

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
    if position is None:
        return False
    if position.is_over:
        return position.run >= place.run
    return peer in stuck and position != place
