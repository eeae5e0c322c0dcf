"""Memory of a module on a device: constants for its lifetime, frames per call or cached."""

from __future__ import annotations

from collections.abc import Sequence

from hloc.codegen.plan.plan import Plan
from hloc.codegen.plan.pointer_table import ARENA_SLOT, FIRST_SLOT
from hloc.dtypes import Array
from hloc.runtime.gpu.device import Device
from hloc.runtime.gpu.simulated import SimulatedDevice


class Allocations:
    """Memory that is freed together."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._addresses: list[int] = []

    def new(self, size_bytes: int) -> int:
        """Return the address of new memory."""
        address = self.device.allocate(size_bytes)
        self._addresses.append(address)
        return address

    def holding(self, data: Array) -> int:
        """Return the address of new memory with a copy of `data`."""
        address = self.new(data.nbytes)
        if data.nbytes:
            self.device.write(address, data)
        return address

    def free(self) -> None:
        """Free all memory."""
        while self._addresses:
            self.device.free(self._addresses.pop())


def put_constants(memory: Allocations, plan: Plan) -> list[int]:
    """Return the addresses of a plan's constants, copied to the device."""
    return [memory.holding(c.in_memory) for c in plan.assignment.constants]


class Frame:
    """Memory for one run at a time: temporaries, arguments, results.

    Attributes:
        table: address of each slot.
    """

    def __init__(
        self, device: Device, plan: Plan, constants: Sequence[int], argument_bytes: Sequence[int]
    ) -> None:
        """Allocate; on failure everything allocated so far is freed."""
        self._plan, self._memory = plan, Allocations(device)
        layout, assignment = plan.table, plan.assignment
        self.table = [0] * layout.size
        self.table[FIRST_SLOT : FIRST_SLOT + len(constants)] = constants
        try:
            self.table[ARENA_SLOT] = self._memory.new(assignment.arena_bytes)
            for number, size in enumerate(argument_bytes):
                self.table[layout.first_parameter + number] = self._memory.new(size)
            for number, shape in enumerate(assignment.outputs):
                self.table[layout.first_output + number] = self._memory.new(shape.size_bytes)
            self._end_arrays(device)
        except BaseException:
            self._memory.free()
            raise

    def _end_arrays(self, device: Device) -> None:
        """Declare the ends of arrays within an allocation, to devices that check reads."""
        if not isinstance(device, SimulatedDevice):
            return
        assignment = self._plan.assignment
        outputs = self.table[self._plan.table.first_output :]
        for place in (buffer.place for buffer in assignment.buffers):
            if place.kind == "arena":
                base, size = self.table[ARENA_SLOT], assignment.arena_bytes
            elif place.kind == "output":
                base, size = outputs[place.number], assignment.outputs[place.number].size_bytes
            else:
                continue
            device.end_array(base + place.offset + place.size_bytes, base + size)

    def put(self, arguments: Sequence[Array]) -> None:
        """Copy the arguments of a run to the device."""
        first = self._plan.table.first_parameter
        for number, data in enumerate(arguments):
            if data.nbytes:
                self._memory.device.write(self.table[first + number], data)

    def free(self) -> None:
        """Free the memory."""
        self._memory.free()


def fill_shared_outputs(device: Device, plan: Plan, table: Sequence[int]) -> None:
    """Copy arguments into the outputs that share their buffers."""
    layout = plan.table
    for alias in plan.assignment.aliases:
        if alias.how == "in place":
            target = table[layout.first_output + alias.output]
            source = table[layout.first_parameter + alias.parameter]
            device.copy(target, source, alias.size_bytes)
