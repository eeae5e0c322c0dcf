"""A module compiled for a GPU that can be called: arrays in, arrays out.

The steps of the plan are issued to a device one after another; loops and branches read their
predicates back. Memory of temporaries is one range; arguments are copied in and results out.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from hloc.codegen.nvptx.backend import NvptxModule
from hloc.codegen.plan import (
    ARENA_SLOT,
    FIRST_SLOT,
    BranchStep,
    CallStep,
    CopyStep,
    HostStep,
    KernelStep,
    LoopStep,
    Place,
    Step,
)
from hloc.errors import HloError, UnsupportedError
from hloc.memory.buffer_assignment import BufferReport, data_leaves
from hloc.runtime.dynamic_sizes import cut_results, padded_arguments
from hloc.runtime.executable import (
    ArraySpec,
    check_memory,
    spec_of,
)
from hloc.runtime.gpu.device import Array, Device
from hloc.runtime.gpu.simulated import SimulatedDevice
from hloc.runtime.outline import constant_data, parameter_leaves
from hloc.shapes import ArrayShape


class GpuExecutable:
    """Code and constants of one module on a device.

    Call it with one array per parameter leaf (tuples flattened depth first, tokens left out); it
    returns the list of result leaves. Calls from several threads run one after another.

    Attributes:
        parameters, outputs: what it takes and returns.
    """

    def __init__(self, compiled: NvptxModule, device: Device) -> None:
        """Load `compiled` onto `device`.

        Raises:
            HloError: it needs more memory than the limit; the device does not take the code.
        """
        plan = compiled.plan
        self.compiled = compiled
        self.device = device
        boundary = compiled.boundary
        leaves = parameter_leaves(compiled.module)
        self._specs = tuple(spec_of(leaf.name, leaf.shape) for leaf in leaves)
        self._results = tuple(
            spec_of(f"output {i}", shape) for i, shape in enumerate(plan.assignment.outputs)
        )
        self.parameters = self._specs[: len(self._specs) - len(boundary.parameters)]
        self.outputs = self._results[: len(self._results) - len(boundary.results)]
        self._is_dynamic = bool(boundary.parameters or boundary.results)
        check_memory(compiled.buffers, compiled.options.memory_limit_bytes)
        self._code = device.load(compiled.ptx) if compiled.ptx else None
        self._constants = [self._put(constant_data(c)) for c in plan.assignment.constants]
        self._lock = threading.Lock()

    @property
    def buffers(self) -> BufferReport:
        """Bytes of memory by kind."""
        return self.compiled.buffers

    def stage(self, name: str) -> str | bytes:
        """Return a form the module had on its way: `hlo`, `llvm-ir`, `ptx` and others."""
        return self.compiled.stage(name)

    def __call__(self, *arrays: Any, donate: Collection[int] = ()) -> list[Array]:
        """Run the module.

        Args:
            arrays: one per parameter leaf; NumPy arrays or what converts to them.
            donate: numbers of arguments that are given away, which is nothing gained here: they
                are copied to the device.

        Returns:
            Arrays of the caller's own, one per result leaf.

        Raises:
            HloError: wrong number, type or shape of arguments, with the parameter's name.
        """
        if len(arrays) != len(self.parameters):
            raise HloError(f"expected {len(self.parameters)} arguments, but got {len(arrays)}")
        if not self._is_dynamic:
            return self._call(arrays)
        shapes = [spec.shape for spec in self.parameters]
        boundary = self.compiled.boundary
        padded = padded_arguments(arrays, shapes, boundary)
        return cut_results(self._call(padded), boundary)

    def _call(self, arrays: Sequence[Any]) -> list[Array]:
        data = [spec.in_memory(a) for spec, a in zip(self._specs, arrays, strict=True)]
        with self._lock, self._memory() as memory:
            run = _Run(self.compiled, self.device, self._code, memory.table(data))
            run.computation(0)
            self.device.synchronize()
            return memory.results()

    @contextmanager
    def _memory(self) -> Iterator[_CallMemory]:
        memory = _CallMemory(self)
        try:
            yield memory
        finally:
            memory.free()

    def _put(self, data: Array) -> int:
        address = self.device.allocate(data.nbytes)
        if data.nbytes:
            self.device.write(address, data)
        return address


class _CallMemory:
    """The memory of one call on the device."""

    def __init__(self, owner: GpuExecutable) -> None:
        self.owner, self.device = owner, owner.device
        self._allocated: list[int] = []
        self._outputs: list[int] = []

    def table(self, arguments: Sequence[Array]) -> list[int]:
        """Return the address of each slot; arguments are copied to the device."""
        layout = self.owner.compiled.plan.table
        table = [0] * layout.size
        table[ARENA_SLOT] = self._new(self.owner.compiled.plan.assignment.arena_bytes)
        for number, address in enumerate(self.owner._constants):
            table[FIRST_SLOT + number] = address
        for number, data in enumerate(arguments):
            address = self._new(data.nbytes)
            if data.nbytes:
                self.device.write(address, data)
            table[layout.first_parameter + number] = address
        for number, spec in enumerate(self.owner._results):
            address = self._new(spec.shape.size_bytes)
            self._outputs.append(address)
            table[layout.first_output + number] = address
        for alias in self.owner.compiled.plan.assignment.aliases:
            if alias.how == "in place":  # the code expects the argument's bytes there
                source = table[layout.first_parameter + alias.parameter]
                self.device.copy(self._outputs[alias.output], source, alias.size_bytes)
        return table

    def _new(self, size_bytes: int) -> int:
        address = self.device.allocate(size_bytes)
        self._allocated.append(address)
        return address

    def results(self) -> list[Array]:
        """Return the outputs, copied from the device."""
        specs = self.owner._results
        return [
            _in_order(self.device.read(address, spec.shape.size_bytes), spec)
            for address, spec in zip(self._outputs, specs, strict=True)
        ]

    def free(self) -> None:
        """Give the memory back."""
        for address in self._allocated:
            self.device.free(address)


def _in_order(data: Array, spec: ArraySpec) -> Array:
    """Return bytes as an array in logical order."""
    array: Array = data.view(spec.numpy).reshape(spec.physical_dims)
    return array if spec.axes is None else array.transpose(spec.axes)


class _Run:
    """One run of the plan's steps."""

    def __init__(
        self, compiled: NvptxModule, device: Device, code: Any, table: Sequence[int]
    ) -> None:
        self.compiled, self.device, self.code, self.table = compiled, device, code, table

    def computation(self, number: int) -> None:
        """Issue the steps of a computation; computations nest no deeper than the text does."""
        for step in self.compiled.plan.computations[number]:
            self._step(step)

    def _step(self, step: Step) -> None:
        if isinstance(step, KernelStep):
            arguments = [self._address(place) for place in step.arguments]
            for function in self.compiled.kernels[step.kernel].functions:
                self.device.launch(self.code, function, arguments)
        elif isinstance(step, CopyStep):
            self.device.copy(
                self._address(step.target), self._address(step.source), step.size_bytes
            )
        elif isinstance(step, LoopStep):
            while self._holds(step):
                self.computation(step.body)
        elif isinstance(step, BranchStep):
            self.computation(self._branch(step))
        elif isinstance(step, CallStep):
            self.computation(step.computation)
        else:
            self._host(step)

    def _address(self, place: Place) -> int:
        return self.table[place.slot] + place.offset

    def _holds(self, step: LoopStep) -> bool:
        self.computation(step.condition)
        return bool(self.device.read(self._address(step.predicate), 1)[0])

    def _branch(self, step: BranchStep) -> int:
        """Return the computation that the selector picks."""
        size = 1 if step.is_predicate else 4
        data = self.device.read(self._address(step.selector), size)
        if step.is_predicate:
            return step.branches[0 if data[0] else 1]
        index = int(data.view(np.int32)[0])
        last = len(step.branches) - 1
        return step.branches[index if 0 <= index <= last else last]

    def _host(self, step: HostStep) -> None:
        """Run a function of the host on copies of its operands."""
        host = self.compiled.plan.host_functions[step.function]
        inst = host.inst
        operands = [shape for o in inst.operands for _, shape in data_leaves(o.shape)]
        results = [shape for _, shape in data_leaves(inst.shape)]
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
        return _in_order(self.device.read(self._address(place), shape.size_bytes), spec)


def load_compiled(compiled: NvptxModule) -> GpuExecutable:
    """Load a module onto the first GPU, or into the interpreter if its options ask for that.

    Raises:
        UnsupportedError: there is no GPU, or no driver for it.
    """
    if compiled.options.simulate:
        return GpuExecutable(compiled, SimulatedDevice())
    raise UnsupportedError(
        "there is no NVIDIA GPU here that hloc can use",
        notes=("--simulate (Python: simulate=True) runs the PTX in hloc's interpreter",),
    )
