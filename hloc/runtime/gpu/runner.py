"""Runs the steps of a plan on a device: straight runs, and control flow decided by the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hloc.codegen.gpu.backend import GpuModule
from hloc.codegen.gpu.streams import StraightRun, straight_runs
from hloc.codegen.plan.plan import BranchStep, CallStep, ExchangeStep, HostStep, LoopStep, Step
from hloc.codegen.plan.pointer_table import Place
from hloc.dtypes import Array
from hloc.lazy_dataclass import dataclass
from hloc.runtime.array_spec import ArraySpec, spec_of
from hloc.runtime.gpu.commands import Call, Copy, Launch, commands_of
from hloc.runtime.gpu.cuda_driver import CudaError
from hloc.runtime.gpu.device import Device, LibraryDevice, RecordingDevice
from hloc.runtime.gpu.graph_cache import GraphCache
from hloc.shapes import ArrayShape, array_leaves


@dataclass(frozen=True, slots=True)
class DevicePart:
    """The part of one device in the runs of several.

    Attributes:
        replica, partition: its numbers.
        exchange: takes part in an exchange, given its number and the addresses of its arrays.
        check: raises if the run was stopped.
    """

    replica: int
    partition: int
    exchange: Callable[[int, Sequence[int]], None]
    check: Callable[[], None]


class Runner:
    """The steps of one module on one device; one run at a time."""

    def __init__(
        self, compiled: GpuModule, device: Device, code: Any, part: DevicePart | None = None
    ) -> None:
        self.compiled, self.device, self.code, self.part = compiled, device, code, part
        self.items = straight_runs(compiled.plan, compiled.kernels)
        self.graphs: GraphCache | None = None
        if isinstance(device, RecordingDevice):
            runs = sum(isinstance(i, StraightRun) for items in self.items for i in items)
            self.graphs = GraphCache(device, code, runs)

    def run(self, table: Sequence[int]) -> None:
        """Enqueue the whole plan; `table` holds the address of each slot.

        Raises:
            HloError: the device or a kernel fails.
        """
        _Run(self, table).computation(0)


class _Run:
    """One run of the plan's steps."""

    def __init__(self, owner: Runner, table: Sequence[int]) -> None:
        self.owner, self.device, self.table = owner, owner.device, table
        self.plan = owner.compiled.plan

    def computation(self, number: int) -> None:
        """Issue the steps of a computation; recursion is as deep as the nesting of the text."""
        for item in self.owner.items[number]:
            if isinstance(item, StraightRun):
                self._straight(item)
            else:
                self._step(item)

    def _straight(self, run: StraightRun) -> None:
        """Issue a run: as a graph if that pays, or step by step in the order of the plan."""
        kernels, graphs = self.owner.compiled.kernels, self.owner.graphs
        if graphs is not None and graphs.replay(
            run, self.table, lambda: commands_of(run, kernels, self._address)
        ):
            return
        for command in commands_of(run, kernels, self._address):
            for action in command.actions:
                if isinstance(action, Copy):
                    self.device.copy(action.target, action.source_address, action.size_bytes)
                else:
                    self._start(action)

    def _start(self, action: Launch | Call) -> None:
        try:
            if isinstance(action, Launch):
                self.device.launch(self.owner.code, action.function, action.arguments)
            else:
                assert isinstance(self.device, LibraryDevice), "refused when the module was loaded"
                self.device.call(self.owner.code, action.call, action.kernel, action.arguments)
        except CudaError as fault:
            raise fault.at(action.source) from None

    def _step(self, step: Step) -> None:
        if isinstance(step, LoopStep):
            while self._holds(step):
                self.computation(step.body)
                if self.owner.part is not None:
                    self.owner.part.check()
        elif isinstance(step, BranchStep):
            self.computation(self._branch(step))
        elif isinstance(step, CallStep):
            self.computation(step.computation)
        elif isinstance(step, ExchangeStep):
            assert self.owner.part is not None, "several devices have a part each"
            self.owner.part.exchange(step.number, [self._address(p) for p in step.arguments])
        else:
            assert isinstance(step, HostStep), f"{type(step).__name__} stands outside a run"
            self._host(step)

    def _address(self, place: Place) -> int:
        return self.table[place.slot] + place.offset

    def _holds(self, step: LoopStep) -> bool:
        self.computation(step.condition)
        return bool(self.device.read(self._address(step.predicate), 1)[0])

    def _branch(self, step: BranchStep) -> int:
        """Return the number of the selected computation."""
        size = 1 if step.is_predicate else 4
        data = self.device.read(self._address(step.selector), size)
        if step.is_predicate:
            return step.branches[0 if data[0] else 1]
        index = int(data.view(np.int32)[0])
        last = len(step.branches) - 1
        return step.branches[index if 0 <= index <= last else last]

    def _host(self, step: HostStep) -> None:
        """Run a host function on copies of its operands."""
        host = self.plan.host_functions[step.function]
        inst = host.inst
        operands = inst.operand_arrays
        results = array_leaves(inst.shape)
        places = iter(step.arguments)
        arrays = [self._read(next(places), shape) for shape in operands]
        for shape, value in zip(results, host.function(*arrays), strict=True):
            place = next(places)
            if shape.size_bytes:
                order = tuple(reversed(shape.minor_to_major))
                data = np.asarray(value, shape.dtype.numpy).transpose(order)
                self.device.write(self._address(place), np.ascontiguousarray(data))

    def _read(self, place: Place, shape: ArrayShape) -> Array:
        spec = spec_of("operand", shape)
        if not shape.size_bytes:
            return np.zeros(shape.dims, spec.numpy)
        return in_order(self.device.read(self._address(place), shape.size_bytes), spec)


def in_order(data: Array, spec: ArraySpec) -> Array:
    """Return bytes of the device's memory as an array in logical order."""
    array: Array = data.view(spec.numpy).reshape(spec.physical_dims)
    return array if spec.axes is None else array.transpose(spec.axes)
