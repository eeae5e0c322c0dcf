"""Runs that repeat on the same addresses are recorded once and replayed with one call."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from hloc.codegen.gpu.streams import StraightRun
from hloc.runtime.gpu.commands import Command
from hloc.runtime.gpu.device import RecordingDevice

FEWEST_STEPS = 2
"""Shorter runs are issued step by step: a graph saves nothing over a single launch."""

_KEPT_PER_RUN = 4

_Key: TypeAlias = tuple[int, int, tuple[int, ...]]


class GraphCache:
    """Graphs of the straight runs of one module, by run and addresses.

    The first run with given addresses is issued step by step, the second one is recorded: a graph
    does not pay for a single run.
    """

    def __init__(self, device: RecordingDevice, code: Any, runs: int) -> None:
        self._device, self._code = device, code
        self._limit = _KEPT_PER_RUN * max(1, runs)
        self._graphs: OrderedDict[_Key, Any] = OrderedDict()  # None: seen once

    def replay(
        self,
        run: StraightRun,
        addresses: Sequence[int],
        commands: Callable[[], Sequence[Command]],
    ) -> bool:
        """Run a graph of `run` if there is or should be one; return whether it did.

        Args:
            run: the run.
            addresses: all inputs of `commands`.
            commands: returns the commands of the run, for recording.
        """
        if len(run.steps) < FEWEST_STEPS or not self._device.records:
            return False
        key = (run.computation, run.number, tuple(addresses))
        if key not in self._graphs:
            self._make_room()
            self._graphs[key] = None
            return False
        self._graphs.move_to_end(key)
        graph = self._graphs[key]
        if graph is None:
            graph = self._graphs[key] = self._device.record(self._code, commands())
        self._device.replay(graph)
        return True

    def _make_room(self) -> None:
        while len(self._graphs) >= self._limit:
            _, graph = self._graphs.popitem(last=False)
            if graph is not None:
                self._device.synchronize()
                self._device.discard(graph)

    def close(self) -> None:
        """Destroy all graphs; none is running."""
        for graph in self._graphs.values():
            if graph is not None:
                self._device.discard(graph)
        self._graphs.clear()
