"""A compiled module that can be called: arrays in, arrays out.

Arguments are checked, and used in place if they have the memory layout that the code expects;
outputs are new arrays. Arguments are never written, except those that the caller donates: an output
that the module aliases with one then uses its memory.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from hloc.codegen.backend import PlannedModule
from hloc.codegen.plan.exchange import Exchange
from hloc.codegen.plan.pointer_table import DEVICE_SLOT, FIRST_SLOT
from hloc.dtypes import Array
from hloc.errors import HloError
from hloc.ir.sharded_signature import ShardedSignature
from hloc.memory.allocation import BufferReport
from hloc.runtime.arena import Frame, Team
from hloc.runtime.array_spec import check_ranks, spec_of
from hloc.runtime.communicator.interface import Engine, ExchangeProgram
from hloc.runtime.cpu_loader import LoadedCode
from hloc.runtime.custom_calls import callback_for
from hloc.runtime.device_run import DeviceRun, OnFault
from hloc.runtime.donation import Donation
from hloc.runtime.dynamic_sizes import cut_results, padded_arguments
from hloc.runtime.manifest import ProgramManifest
from hloc.runtime.memory_limit import check_memory
from hloc.runtime.recycling import Recycler
from hloc.runtime.shards import call_whole
from hloc.runtime.threads import device_team

if TYPE_CHECKING:
    from hloc.codegen.plan.host_calls import HostFunction


_MAX_IDLE_FRAMES = 4

# `array.ctypes.data` takes three times as long, but also works for read-only arrays.
_addressof: Callable[[Any], int] = ctypes.addressof
_from_buffer: Callable[[Any], Any] = ctypes.c_char.from_buffer


class HostCode(Protocol):
    """Machine code in the memory of this process; it is unloaded when this object is deleted."""

    @property
    def address(self) -> int:
        """Address of `void entry(void **table)`; `Plan.table` describes the slots."""


class Executable:
    """Machine code of one module, its constants, and memory that calls reuse.

    Call it with one array per parameter leaf (tuples flattened depth first, tokens left out); it
    returns the list of result leaves. Several threads may call it at once.

    Attributes:
        compiled: the module; one that came from the cache is recompiled on access.
        manifest: its boundary and memory.
        parameters, outputs: specs of arguments and results.
        aliases: outputs that may alias parameters (`input_output_alias`).
    """

    def __init__(
        self,
        compiled: PlannedModule,
        manifest: ProgramManifest,
        load: Callable[[], HostCode],
        team: Team | None = None,
        hosts: Sequence[HostFunction] = (),
    ) -> None:
        """Prepare to run `compiled`.

        Args:
            compiled: the module; used only for its stages.
            manifest: its boundary and memory.
            load: loads its machine code; not called if memory is too small.
            team: threads that share its kernels, None for the caller's thread only.
            hosts: the host functions that it calls, by slot of the table.

        Raises:
            HloError: it needs more memory than the limit, or than this machine has.
            UnsupportedError: an argument or result has more dimensions than NumPy arrays have.
        """
        check_ranks([*(leaf.shape for leaf in manifest.parameters), *manifest.outputs])
        self.compiled, self.manifest = compiled, manifest
        boundary = manifest.boundary
        self._specs = tuple(spec_of(leaf.name, leaf.shape) for leaf in manifest.parameters)
        self._results = tuple(
            spec_of(f"output {i}", shape) for i, shape in enumerate(manifest.outputs)
        )
        self.parameters = self._specs[: len(self._specs) - len(boundary.parameters)]
        self.outputs = self._results[: len(self._results) - len(boundary.results)]
        self._is_dynamic = bool(boundary.parameters or boundary.results)
        self._team = team
        extra_bytes = team.scratch_bytes if team else 0
        extra_bytes += sum(size for _, size in manifest.loop_matrices)
        check_memory(self.buffers, compiled.options.memory_limit_bytes, extra_bytes)
        self._hosts = hosts
        self._callbacks = [callback_for(host, self._failed) for host in hosts]
        self._code = load()
        self._run = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._code.address)
        self._table = manifest.table
        first = manifest.table.first_parameter
        self._arguments = tuple(
            (first + i, spec.dims if spec.exports_bytes else None, spec.numpy, spec)
            for i, spec in enumerate(self._specs)
        )
        self.aliases = manifest.aliases
        self._donation = Donation(self.aliases, self._specs, self._results, self._table)
        self._idle: list[Frame] = []
        self._engine: Engine | None = None  # by default the local one, on first use
        self._idle_devices: list[DeviceRun] = []
        self._current = threading.local()
        self._signature: Callable[[], ShardedSignature] | None = None

    @property
    def threads(self) -> int:
        """Most threads of a run; 1 if no kernel is large enough to be shared."""
        return self._team.workers if self._team else 1

    @property
    def buffers(self) -> BufferReport:
        """Bytes of memory by kind."""
        return self.manifest.report

    @property
    def address(self) -> int:
        """Address of the entry function, for callers that fill the pointer table themselves."""
        return self._code.address

    @property
    def team(self) -> Team | None:
        """The threads that share its kernels."""
        return self._team

    @property
    def calls_python(self) -> bool:
        """True if it calls Python functions, which only `__call__` supports."""
        return any(not isinstance(callback, ctypes.c_void_p) for callback in self._callbacks)

    def fixed_pointers(self) -> dict[int, int]:
        """Return the pointers that all calls share, by slot of the table."""
        return self._fixed_pointers(self._callbacks)

    def _fixed_pointers(self, callbacks: Sequence[Any]) -> dict[int, int]:
        fixed = {FIRST_SLOT + i: data.ctypes.data for i, data in enumerate(self.manifest.constants)}
        for i, callback in enumerate(callbacks):
            address = ctypes.cast(callback, ctypes.c_void_p).value
            assert address is not None
            fixed[self._table.first_host_function + i] = address
        return fixed

    def stage(self, name: str) -> str | bytes:
        """Return a stage of the compilation: `hlo`, `llvm-ir`, `asm` and others."""
        return self.compiled.stage(name)

    def __call__(self, *arrays: Any, donate: Collection[int] = ()) -> list[Array]:
        """Run the module.

        Args:
            arrays: one per parameter leaf; NumPy arrays or what converts to them. For a module on
                several devices these are whole arrays, as are the results.
            donate: numbers of the arguments whose memory the run may overwrite. If the module
                aliases an output with such a parameter, the result is that array, without a copy;
                its old contents are lost. An array that cannot be reused (read-only, not
                contiguous, of another layout, or sharing memory with another argument) is copied.
                Do not donate an array that another thread uses during the run.

        Returns:
            New arrays, or donated ones, one per result leaf.

        Raises:
            HloError: wrong number, type or shape of arguments, with the parameter's name.
        """
        if self.manifest.tells_devices:
            return self._call_whole(arrays)
        if len(arrays) != len(self.parameters):
            raise HloError(f"expected {len(self.parameters)} arguments, but got {len(arrays)}")
        if donate and not all(_is_number_below(number, len(arrays)) for number in donate):
            raise HloError(f"donate holds numbers of the {len(arrays)} arguments, got {donate!r}")
        if self._is_dynamic:
            return self._call_dynamic(arrays)
        return self._call(arrays, donate)

    def _call_dynamic(self, arrays: tuple[Any, ...]) -> list[Array]:
        """Run with dynamic arrays, whose sizes are hidden arguments and results."""
        boundary = self.manifest.boundary
        shapes = [spec.shape for spec in self.parameters]
        padded = tuple(padded_arguments(arrays, shapes, boundary))
        return cut_results(self._call(padded, ()), boundary)

    def _call(self, arrays: tuple[Any, ...], donate: Collection[int]) -> list[Array]:
        """Run the code on one array per parameter leaf, including hidden ones."""
        try:
            frame = self._idle.pop()
        except IndexError:
            frame = self._frame(self._callbacks, self._team)
        results, given, _copies = self._fill(frame, arrays, donate)
        if frame.matrices:
            frame.align_matrices()
        if self._callbacks:
            self._current.frame = frame
        try:
            self._run(frame.address)
            if frame.stop.value:
                raise frame.end()
            if given:
                self._donation.copy_out(frame.table, given, results)
        finally:
            if len(self._idle) < _MAX_IDLE_FRAMES:
                self._idle.append(frame)
        return results

    def _call_whole(self, arrays: tuple[Any, ...]) -> list[Array]:
        """Run a module for several devices on whole arrays, split and joined by its shardings.

        Raises:
            HloError: the module has no sharding for a result.
        """
        devices = self.manifest.devices
        if devices == 1:
            return [parts[0] for parts in self.run_devices([[array] for array in arrays])]
        signature = self._signature() if self._signature is not None else None
        return call_whole(
            self.run_devices, [np.asarray(array) for array in arrays], signature, devices
        )

    def set_signature(self, signature: Callable[[], ShardedSignature]) -> None:
        """Set the function that returns, on first use, the shardings of arguments and results."""
        self._signature = cache(signature)

    def _fill(
        self, frame: Frame, arrays: Sequence[Any], donate: Collection[int]
    ) -> tuple[list[Array], dict[int, Array], list[Array]]:
        """Store the addresses of arguments and results into the table of a frame.

        Returns:
            The results, donated arguments by number of the output, and copies of arguments, which
            must live as long as the run.
        """
        table = frame.table
        used = []
        for array, (slot, dims, numpy, spec) in zip(arrays, self._arguments, strict=True):
            if (
                type(array) is np.ndarray
                and array.shape == dims
                and array.dtype == numpy
                and array.flags.carray
            ):
                table[slot] = _addressof(_from_buffer(array))
            else:
                array = spec.in_memory(array)
                used.append(array)  # a copy must live as long as the call
                table[slot] = array.ctypes.data
        given: dict[int, Array] = {}
        donation = self._donation
        if donate or donation.always:
            given = donation.usable(table, arrays, donate)
        if given or donation.always:
            return donation.results(frame, given), given, used
        results = []
        for slot, axes, recycler in frame.outputs:
            array, table[slot] = recycler.take()
            results.append(array if axes is None else array.transpose(axes))
        return results, given, used

    # ---- several devices

    def run_devices(self, args: Sequence[Sequence[Any]]) -> list[list[Array]]:
        """Run the module on all of its devices concurrently, each with its own arrays.

        Args:
            args: `args[i][device]` is the array for parameter leaf i on a device; devices are
                numbered by flattened id, replica * partitions + partition. With an engine that
                spans processes these are the devices of this process (`communicator.devices`).

        Returns:
            `results[j][device]`, new arrays by result leaf.

        Raises:
            HloError: wrong number, type or shape of arguments; a deadlock, with the devices and the
                instructions at which they wait.
        """
        try:
            devices = self._idle_devices.pop()
        except IndexError:
            devices = self._new_devices()
        try:
            per_device = self._per_device(args, len(devices.frames))
            filled = [
                self._fill(frame, arrays, ())
                for frame, arrays in zip(devices.frames, per_device, strict=True)
            ]
            for frame in devices.frames:
                frame.align_matrices()
            devices.run(self._code.address)
        finally:
            self._idle_devices.append(devices)
        results = [results for results, _, _ in filled]
        if self._is_dynamic:
            results = [cut_results(result, self.manifest.boundary) for result in results]
        return [list(parts) for parts in zip(*results, strict=True)]

    def _per_device(self, args: Sequence[Sequence[Any]], count: int) -> list[list[Any]]:
        """Return the arguments of each device, including hidden sizes."""
        parameters = self.parameters
        if len(args) != len(parameters):
            raise HloError(f"expected {len(parameters)} arguments, but got {len(args)}")
        for spec, parts in zip(parameters, args, strict=True):
            if len(parts) != count:
                raise HloError(f"{spec.name} needs {count} arrays, one per device: {len(parts)}")
        result = [[parts[place] for parts in args] for place in range(count)]
        if not self._is_dynamic:
            return result
        shapes = [spec.shape for spec in parameters]
        return [padded_arguments(arrays, shapes, self.manifest.boundary) for arrays in result]

    def use_engine(self, engine: Engine) -> None:
        """Set the engine that exchanges data between devices; the default is `local`."""
        self._engine = engine
        self._idle_devices.clear()

    def exchange_seconds(self) -> list[tuple[Exchange, tuple[float, ...]]]:
        """Return the time in each exchange so far, waiting included, by device of this process."""
        runs = [devices.communicator.seconds() for devices in self._idle_devices]
        by_device = [map(sum, zip(*times, strict=True)) for times in zip(*runs, strict=True)]
        return list(zip(self.manifest.exchanges, zip(*by_device, strict=True), strict=True))

    def _new_devices(self) -> DeviceRun:
        """Return memory for a run of several devices.

        Raises:
            HloError: it needs more memory than the limit, or than this machine has.
            UnsupportedError: this machine does not support the engine.
        """
        manifest = self.manifest
        combiners: dict[str, int] = {}
        if manifest.exchanges:
            assert isinstance(self._code, LoadedCode)
            combiners = dict(zip(manifest.combiners, self._code.addresses[1:], strict=True))
        program = ExchangeProgram(
            manifest.exchanges, combiners, manifest.replicas, manifest.partitions
        )
        if self._engine is None:
            from hloc.runtime.communicator.local import LocalCommunicator

            self._engine = LocalCommunicator
        communicator = self._engine(program)
        count = len(communicator.devices)
        others = count - 1
        outputs = self.buffers.output_bytes + self.buffers.aliased_bytes
        more = others * (self.buffers.arena_bytes + outputs)
        check_memory(self.buffers, self.compiled.options.memory_limit_bytes, more)

        def new_frame(place: int, on_fault: OnFault, state: int) -> Frame:
            callbacks = [callback_for(host, on_fault) for host in self._hosts]
            team = device_team(self._team, place, count)
            return self._frame(callbacks, team, {DEVICE_SLOT: state})

        return DeviceRun(communicator, new_frame)

    # ---- memory of a call

    def _failed(self, fault: BaseException) -> None:
        """Keep the first error of a host function and end all loops."""
        self._current.frame.fail(fault)

    def _frame(
        self,
        callbacks: Sequence[Any],
        team: Team | None,
        more: Mapping[int, int] = MappingProxyType({}),
    ) -> Frame:
        """Return memory for one call; `more` are further pointers by slot."""
        fixed = {**self._fixed_pointers(callbacks), **more}
        first = self._table.first_output
        outputs = tuple(
            (first + i, spec.axes, Recycler(spec.physical_dims, spec.numpy))
            for i, spec in enumerate(self._results)
        )
        arena_bytes = self.manifest.arena_bytes
        matrices = self.manifest.loop_matrices
        frame = Frame(self._table.size, arena_bytes, fixed, outputs, team, matrices)
        frame.callbacks = callbacks
        return frame


def _is_number_below(number: Any, count: int) -> bool:
    return isinstance(number, int | np.integer) and bool(0 <= number < count)
