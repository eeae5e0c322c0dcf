"""A compiled module that can be called: arrays in, arrays out.

Arguments are checked and used in place where they lie in memory as the code expects them; outputs
are arrays that nobody else refers to. Arguments are never written, but for those that the caller
gives away: an output that the module aliases with one then lies in its memory.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from hloc.codegen.backend import PlannedModule
from hloc.codegen.llvm.target import physical_memory_bytes
from hloc.codegen.plan.host_calls import HostFunction
from hloc.codegen.plan.pointer_table import FIRST_SLOT
from hloc.dtypes import dtype_of_numpy
from hloc.errors import HloError, UnsupportedError
from hloc.memory.buffer_assignment import BufferReport
from hloc.runtime.arena import Frame, Team
from hloc.runtime.cpu_loader import load_objects
from hloc.runtime.custom_calls import callback_for
from hloc.runtime.dynamic_sizes import cut_results, padded_arguments
from hloc.runtime.manifest import ProgramManifest, manifest_of, planned_manifest
from hloc.runtime.recycling import Recycler
from hloc.runtime.threads import team_for
from hloc.shapes import MAX_HOST_RANK, ArrayShape

if TYPE_CHECKING:
    from hloc.codegen.cpu.backend import CpuModule

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

_MAX_IDLE_FRAMES = 4

# `array.ctypes.data` takes three times as long, but also works for arrays that are read-only.
_addressof: Callable[[Any], int] = ctypes.addressof
_from_buffer: Callable[[Any], Any] = ctypes.c_char.from_buffer


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """One array at the boundary.

    Attributes:
        name: what messages call it.
        shape: HLO shape.
        order: dimensions from major to minor, None if row-major.
        exports_bytes: the address of a writable row-major array can be had in the faster way.
    """

    name: str
    shape: ArrayShape
    numpy: np.dtype[Any]
    dims: tuple[int, ...]
    order: tuple[int, ...] | None
    exports_bytes: bool

    def in_memory(self, argument: Any) -> Array:
        """Return `argument` as the code expects it in memory, copied only if need be.

        Raises:
            HloError: it is not an array, or has another type or shape.
        """
        array = _as_array(self, argument)
        if array.dtype != self.numpy or array.shape != self.dims:
            raise HloError(
                f"{self.name} must be {self.shape.text_without_layout}, "
                f"but the argument is {_describe(array)}"
            )
        if self.order is not None:
            array = array.transpose(self.order)
        if array.flags.c_contiguous and array.flags.aligned:  # `np.require` takes 2 us to say so
            return array
        return np.require(array, requirements=("C", "A"))

    @property
    def physical_dims(self) -> tuple[int, ...]:
        """The dimensions in the order in which they lie in memory."""
        return self.dims if self.order is None else tuple(self.dims[dim] for dim in self.order)

    def over(self, array: Array, other: ArraySpec) -> Array:
        """Return the memory of `array`, which is one of `other`, as an array of this spec."""
        if (self.numpy, self.dims, self.order) == (other.numpy, other.dims, other.order):
            return array
        memory = array if other.order is None else array.transpose(other.order)
        memory = memory.reshape(-1).view(self.numpy).reshape(self.physical_dims)
        return memory if self.axes is None else memory.transpose(self.axes)

    @property
    def axes(self) -> tuple[int, ...] | None:
        """How to transpose an array from memory into logical order; None for not at all."""
        order = self.order
        return order and tuple(order.index(dim) for dim in range(len(order)))


def _as_array(spec: ArraySpec, argument: Any) -> Array:
    if isinstance(argument, np.ndarray):
        return argument
    if isinstance(argument, (bool, int, float, complex)):
        return np.asarray(argument, spec.numpy)
    if hasattr(argument, "__array__"):
        return np.asarray(argument)
    if hasattr(argument, "__dlpack__"):
        return np.from_dlpack(argument)
    raise HloError(
        f"{spec.name} must be an array {spec.shape.text_without_layout}, "
        f"but the argument is a {type(argument).__name__}"
    )


def _describe(array: Array) -> str:
    dtype = dtype_of_numpy(array.dtype)
    return f"{dtype or array.dtype}[{','.join(map(str, array.shape))}]"


def spec_of(name: str, shape: ArrayShape) -> ArraySpec:
    """Return the spec of an array of `shape`."""
    order = tuple(reversed(shape.minor_to_major))
    row_major = order == tuple(range(shape.rank))
    exports_bytes = row_major and shape.size_bytes > 0 and shape.dtype.numpy.isbuiltin == 1
    numpy = shape.dtype.numpy
    return ArraySpec(name, shape, numpy, shape.dims, None if row_major else order, exports_bytes)


class HostCode(Protocol):
    """Machine code in the memory of this process; it is unloaded when this object goes away."""

    @property
    def address(self) -> int:
        """Of the entry, `void entry(void **table)`; `Plan.table` says what the slots hold."""


class Executable:
    """Machine code of one module, its constants, and memory that is used again in each call.

    Call it with one array per parameter leaf (tuples flattened depth first, tokens left out); it
    returns the list of result leaves. Several threads may call it at once.

    Attributes:
        compiled: the module; one that came from the cache is made again when it is looked at.
        manifest: its boundary and memory.
        parameters, outputs: what it takes and returns.
        aliases: outputs that the module lets lie in parameters (`input_output_alias`).
    """

    def __init__(
        self,
        compiled: PlannedModule,
        manifest: ProgramManifest,
        load: Callable[[], HostCode],
        team: Team | None = None,
        hosts: Sequence[HostFunction] = (),
    ) -> None:
        """Get ready to run `compiled`.

        Args:
            compiled: the module; used only for its stages.
            manifest: its boundary and memory.
            load: brings its machine code into memory; not called if there is too little of it.
            team: threads that share its kernels, None for the caller's alone.
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
        check_memory(self.buffers, compiled.options.memory_limit_bytes, extra_bytes)
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
        self._alias_of = {alias.output: alias for alias in self.aliases}
        self._always_aliased = any(alias.how == "in place" for alias in self.aliases)
        self._idle: list[Frame] = []
        self._current = threading.local()

    @property
    def threads(self) -> int:
        """How many threads a run may use; 1 if no kernel is large enough to be shared."""
        return self._team.workers if self._team else 1

    @property
    def buffers(self) -> BufferReport:
        """Bytes of memory by kind."""
        return self.manifest.report

    @property
    def address(self) -> int:
        """Of the entry function, for callers that fill the pointer table themselves."""
        return self._code.address

    @property
    def team(self) -> Team | None:
        """The threads that share its kernels."""
        return self._team

    @property
    def calls_python(self) -> bool:
        """True if it calls functions of Python, which only `__call__` is ready for."""
        return any(not isinstance(callback, ctypes.c_void_p) for callback in self._callbacks)

    def fixed_pointers(self) -> dict[int, int]:
        """Return the pointers that are the same in every call, by slot of the table."""
        fixed = {FIRST_SLOT + i: data.ctypes.data for i, data in enumerate(self.manifest.constants)}
        for i, callback in enumerate(self._callbacks):
            address = ctypes.cast(callback, ctypes.c_void_p).value
            assert address is not None
            fixed[self._table.first_host_function + i] = address
        return fixed

    def stage(self, name: str) -> str | bytes:
        """Return a form the module had on its way: `hlo`, `llvm-ir`, `asm` and others."""
        return self.compiled.stage(name)

    def __call__(self, *arrays: Any, donate: Collection[int] = ()) -> list[Array]:
        """Run the module.

        Args:
            arrays: one per parameter leaf; NumPy arrays or what converts to them.
            donate: numbers of the arguments whose memory the run may use up. Where the module lets
                an output lie in such a parameter, the result is that array, and nothing is copied;
                the old contents are gone. An array that cannot serve (read-only, not contiguous,
                of another layout, or sharing memory with another argument) is copied as ever. Give
                away no array that another thread uses meanwhile.

        Returns:
            Arrays of the caller's own, one per result leaf.

        Raises:
            HloError: wrong number, type or shape of arguments, with the parameter's name.
        """
        if len(arrays) != len(self.parameters):
            raise HloError(f"expected {len(self.parameters)} arguments, but got {len(arrays)}")
        if donate and not all(_is_number_below(number, len(arrays)) for number in donate):
            raise HloError(f"donate holds numbers of the {len(arrays)} arguments, got {donate!r}")
        if self._is_dynamic:
            return self._call_dynamic(arrays)
        return self._call(arrays, donate)

    def _call_dynamic(self, arrays: tuple[Any, ...]) -> list[Array]:
        """Run with arrays up to their bounds, whose sizes are hidden arguments and results."""
        boundary = self.manifest.boundary
        shapes = [spec.shape for spec in self.parameters]
        padded = tuple(padded_arguments(arrays, shapes, boundary))
        return cut_results(self._call(padded, ()), boundary)

    def _call(self, arrays: tuple[Any, ...], donate: Collection[int]) -> list[Array]:
        """Run the code on one array per parameter leaf, hidden ones too."""
        try:
            frame = self._idle.pop()
        except IndexError:
            frame = self._new_frame()
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
        if donate or self._always_aliased:
            given = self._given(table, arrays, donate)
        results = []
        if given or self._always_aliased:
            results = self._aliased_results(frame, given)
        else:
            for slot, axes, recycler in frame.outputs:
                array, table[slot] = recycler.take()
                results.append(array if axes is None else array.transpose(axes))
        if self._callbacks:
            self._current.frame = frame
        try:
            self._run(frame.address)
            if frame.stop.value:
                raise frame.end()
            if given:
                self._copy_out(table, given, results)
        finally:
            if len(self._idle) < _MAX_IDLE_FRAMES:
                self._idle.append(frame)
        return results

    # ---- arguments that are given away

    def _given(
        self, table: Any, arrays: tuple[Any, ...], donate: Collection[int]
    ) -> dict[int, Array]:
        """Return by number of the output the arrays that are given away for it, as it wants them.

        `table` has the addresses of all arguments, which tell copies and overlaps.
        """
        result = {}
        for alias in self.aliases:
            number = alias.parameter
            if number not in donate or alias.how == "apart":
                continue
            array = arrays[number]
            if (
                type(array) is np.ndarray
                and array.flags.writeable
                and array.ctypes.data == self._parameter_address(table, alias.output)
                and self._alone(table, number)
            ):
                spec = self._results[alias.output]
                result[alias.output] = spec.over(array, self._specs[number])
        left_out = {alias.group for alias in self.aliases if alias.output not in result}
        return {o: array for o, array in result.items() if self._alias_of[o].group not in left_out}

    def _alone(self, table: Any, number: int) -> bool:
        """True if no other argument shares memory with argument `number`."""
        first = self._table.first_parameter
        start = table[first + number] or 0
        end = start + self._specs[number].shape.size_bytes
        return all(
            i == number
            or (table[first + i] or 0) >= end
            or (table[first + i] or 0) + spec.shape.size_bytes <= start
            for i, spec in enumerate(self._specs)
        )

    def _parameter_address(self, table: Any, output: int) -> int:
        """Return the address of the argument that `output` is aliased with."""
        address = table[self._table.first_parameter + self._alias_of[output].parameter]
        return int(address or 0)

    def _aliased_results(self, frame: Frame, given: dict[int, Array]) -> list[Array]:
        """Return the outputs' arrays, those in `given` among them; others of their own.

        Where the code works in place, these begin with the bytes of the argument.
        """
        table, results = frame.table, []
        for number, (slot, axes, recycler) in enumerate(frame.outputs):
            alias = self._alias_of.get(number)
            if alias is not None and alias.is_shared and number in given:
                table[slot] = self._parameter_address(table, number)
                results.append(given[number])
                continue
            array, table[slot] = recycler.take()
            results.append(array if axes is None else array.transpose(axes))
            if alias is not None and alias.how == "in place":
                source = self._parameter_address(table, number)
                ctypes.memmove(table[slot], source, alias.size_bytes)
        return results

    def _copy_out(self, table: Any, given: dict[int, Array], results: list[Array]) -> None:
        """Copy results into the arguments that the module demands for them."""
        for output, array in given.items():
            alias = self._alias_of[output]
            if alias.how == "copied":
                source = table[self._table.first_output + output]
                ctypes.memmove(self._parameter_address(table, output), source, alias.size_bytes)
                results[output] = array

    def _failed(self, fault: BaseException) -> None:
        """Keep the first fault of a host function and let all loops end."""
        self._current.frame.fail(fault)

    def _new_frame(self) -> Frame:
        fixed = self.fixed_pointers()
        first = self._table.first_output
        outputs = tuple(
            (first + i, spec.axes, Recycler(spec.physical_dims, spec.numpy))
            for i, spec in enumerate(self._results)
        )
        arena_bytes = self.manifest.arena_bytes
        return Frame(self._table.size, arena_bytes, fixed, outputs, self._team)


def check_memory(report: BufferReport, limit_bytes: int, extra_bytes: int = 0) -> None:
    """Refuse to run what needs more memory than `limit_bytes`, or than this machine has if 0.

    `extra_bytes` are needed beside what `report` tells of.
    """
    outputs = report.output_bytes + report.aliased_bytes  # donation is optional
    needed = report.arena_bytes + outputs + report.constant_bytes + extra_bytes
    limit = limit_bytes or physical_memory_bytes()
    if limit and needed > limit:
        whose = "the memory limit" if limit_bytes else "the memory of this machine"
        raise HloError(f"the module needs {needed} bytes to run, more than {whose}, {limit} bytes")


def check_ranks(shapes: Sequence[ArrayShape]) -> None:
    """Raise UnsupportedError if an argument or result has more dimensions than NumPy's arrays."""
    for shape in shapes:
        if shape.rank > MAX_HOST_RANK:
            raise UnsupportedError(
                f"an argument or result of {shape.rank} dimensions cannot be handed over: "
                f"NumPy arrays have at most {MAX_HOST_RANK}"
            )


def _is_number_below(number: Any, count: int) -> bool:
    return isinstance(number, int | np.integer) and bool(0 <= number < count)


def load_planned(compiled: PlannedModule, load: Callable[[], HostCode]) -> Executable:
    """Return an executable of a module of any backend whose code runs in this process.

    Args:
        compiled: the module, with hloc's plan.
        load: brings its machine code into memory.

    Raises:
        HloError: it needs more memory than the limit, or than this machine has.
    """
    return Executable(
        compiled, planned_manifest(compiled), load, hosts=compiled.plan.host_functions
    )


def load_compiled(compiled: CpuModule) -> Executable:
    """Return an executable of a module compiled for the processor.

    Raises:
        UnsupportedError: it was compiled for another machine than this one.
        HloError: it needs more memory than the limit, or than this machine has.
    """
    if not compiled.machine.is_host:
        machine = f"{compiled.machine.triple}, {compiled.machine.cpu}"
        raise UnsupportedError(f"code for {machine} cannot run on this machine")
    return Executable(
        compiled,
        manifest_of(compiled),
        lambda: load_objects(compiled.objects(), compiled.machine),
        team_for(compiled),
        compiled.plan.host_functions,
    )
