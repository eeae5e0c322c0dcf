"""Devices that report the cost of each launch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class MeasuringDevice(Protocol):
    """A device that reports every launch while `metrics` is set."""

    metrics: bool

    @property
    def reports(self) -> list[Any]:
        """Pairs, one per launch: name of the function, and seconds or a LaunchReport."""


@contextmanager
def reports_of(device: MeasuringDevice) -> Iterator[list[Any]]:
    """Collect reports of all launches in the yielded list, which is cleared before and after."""
    before, device.metrics = device.metrics, True
    device.reports.clear()
    try:
        yield device.reports
    finally:
        device.metrics = before
        device.reports.clear()
