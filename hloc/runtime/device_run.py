"""Runs of several devices: memory for each, and one call that runs the code on all of them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from hloc.errors import HloError
from hloc.runtime.arena import Frame, stopped_with
from hloc.runtime.communicator.interface import Communicator, DeviceTable

OnFault: TypeAlias = Callable[[BaseException], None]
FrameMaker: TypeAlias = Callable[[int, OnFault, int], Frame]
"""Creates the frame of a device: its position among those of this process, the callback for errors
of host functions, and the address of its state."""


class DeviceRun:
    """Memory of all devices of this process, for one run at a time.

    Attributes:
        frames: by position among the devices of this process.
    """

    def __init__(self, communicator: Communicator, new_frame: FrameMaker) -> None:
        """Allocate the memory of every device of `communicator`."""
        self.communicator = communicator
        self.frames: list[Frame] = []
        for place, device in enumerate(communicator.devices):
            frame = new_frame(place, partial(self._on_fault, place), communicator.state(device))
            self.frames.append(frame)
        self._tables = [
            DeviceTable(frame.address, ctypes.addressof(frame.stop)) for frame in self.frames
        ]
        stopped_with(self, self.frames)

    def run(self, entry: int) -> None:
        """Run the code at `entry`, once the tables of all frames are filled.

        Raises:
            HloError: a deadlock, or an exchange that failed.
            BaseException: the first exception of a host function; KeyboardInterrupt.
        """
        fault: HloError | None = None
        try:
            self.communicator.run(entry, self._tables)
        except HloError as found:
            fault = found
        ends = [frame.end() for frame in self.frames if frame.stop.value]
        raised = [end for end in ends if not isinstance(end, KeyboardInterrupt)]
        if raised:
            raise raised[0]
        if fault is not None:
            raise fault
        if ends:
            raise ends[0]

    def stop(self) -> None:
        """End the current run."""
        self.communicator.stop()

    def _on_fault(self, place: int, fault: BaseException) -> None:
        self.communicator.stop()
        self.frames[place].fail(fault)
