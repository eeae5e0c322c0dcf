"""Compiled programs: the structure that machine code runs, and the queries of JAX."""

from __future__ import annotations

import ctypes
import itertools
from dataclasses import field
from functools import cached_property
from typing import Any

from hloc import __version__
from hloc.lazy_dataclass import dataclass
from hloc.memory.heap import aligned_bytes
from hloc.pjrt.abi import structure
from hloc.pjrt.boundary import Boundary, Leaf, message_field
from hloc.pjrt.client import MEMORY_KINDS
from hloc.pjrt.element_types import TOKEN
from hloc.pjrt.layouts import layout_address, row_major
from hloc.pjrt.machine.load import machine
from hloc.pjrt.native import named_values, text, words, words_at
from hloc.pjrt.partitioned import Shards
from hloc.runtime.array_spec import ArraySpec
from hloc.runtime.executable import Executable

PROGRAMS: dict[int, Program] = {}
"""The programs that jaxlib holds, by the id in their structure."""

_WHILE = b"\x12\x05while"
"""The opcode of a loop in a serialized instruction."""

_ids = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Request:
    """A compilation request of jaxlib.

    Attributes:
        proto: the serialized HloModuleProto.
        code, format: the program as jaxlib passed it.
        options: the serialized CompileOptionsProto.
        devices: addresses of the devices, in the order of the assignment.
        assignment: the serialized DeviceAssignmentProto.
    """

    proto: bytes
    code: bytes
    format: str
    options: bytes
    replicas: int
    partitions: int
    devices: tuple[int, ...]
    assignment: bytes


@dataclass(eq=False)
class Program:
    """A loaded program and all memory that its structure refers to.

    Attributes:
        memories: memory kinds of results other than `device`, by number.
        shards: sharding of its leaves, None for a program of one device.
        native: the `PJRT_Executable`.
    """

    request: Request
    boundary: Boundary
    run: Executable
    shards: Shards | None = None
    memories: dict[int, str] = field(default_factory=dict)
    number: int = field(default_factory=lambda: next(_ids))
    kept: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.native = structure("PJRT_Executable")()
        self._fill()
        PROGRAMS[self.number] = self

    @property
    def address(self) -> int:
        """The handle."""
        return ctypes.addressof(self.native)

    def hold(self, thing: Any) -> int:
        """Keep a ctypes object alive as long as the program; return its address."""
        self.kept.append(thing)
        return ctypes.addressof(thing)

    def _fill(self) -> None:
        """Fill the structure that the machine code of `PJRT_LoadedExecutable_Execute` reads."""
        native, run, request = self.native, self.run, self.request
        name = self.boundary.name.encode()
        native.refs, native.id = 1, self.number
        native.name = self.hold(ctypes.create_string_buffer(name))
        native.name_size = len(name)
        native.devices = self.hold(words(request.devices))
        native.num_devices = len(request.devices)
        native.num_replicas, native.num_partitions = request.replicas, request.partitions
        native.entry = run.address
        native.slots = run.manifest.table.size
        table = words([0] * native.slots)
        for slot, address in run.fixed_pointers().items():
            table[slot] = address
        native.template = self.hold(table)
        self._fill_memory()
        self._fill_boundary()
        self._fill_aliases()
        native.python = int(self.needs_python)
        native.asynchronous = int(_WHILE in request.proto)  # until the first run is measured

    @property
    def needs_python(self) -> bool:
        """True if machine code alone cannot run it."""
        run = self.run
        hidden = run.manifest.boundary
        return (
            run.calls_python or bool(hidden.parameters or hidden.results) or self.shards is not None
        )

    def _fill_memory(self) -> None:
        native, run = self.native, self.run
        arena_bytes = aligned_bytes(run.manifest.arena_bytes)
        native.scratch_offset = arena_bytes
        if run.team is not None:
            native.team_run, native.team_workers = run.team.run, run.team.workers
            arena_bytes += run.team.scratch_bytes
        native.arena_bytes = aligned_bytes(max(arena_bytes, 1))

    def _fill_boundary(self) -> None:
        """Write one row per parameter and result; tokens have neither slot nor bytes."""
        run, table = self.run, self.run.manifest.table
        taken, given = self.boundary.parameters, self.results
        parameters = (structure("Parameter") * max(len(taken), 1))()
        slots = iter(enumerate(run.parameters, table.first_parameter))
        for row, leaf in zip(parameters, taken, strict=False):
            slot, spec = (-1, None) if leaf.type == TOKEN else next(slots)
            row.slot, row.bytes = slot, spec.shape.size_bytes if spec else 0
            row.layout = layout_address(_order(spec, leaf)) if spec else None
        outputs = (structure("Output") * max(len(given), 1))()
        slots = iter(enumerate(run.outputs, table.first_output))
        for i, (row, leaf) in enumerate(zip(outputs, given, strict=False)):
            slot, spec = (-1, None) if leaf.type == TOKEN else next(slots)
            row.slot, row.bytes = slot, spec.shape.size_bytes if spec else 0
            row.type, row.rank = leaf.type, len(leaf.dims)
            row.layout = layout_address(_order(spec, leaf))
            row.memory = MEMORY_KINDS.index(self.memories.get(i, MEMORY_KINDS[0]))
            row.dims = self.hold(words(leaf.dims))
        self.native.parameters, self.native.num_parameters = self.hold(parameters), len(taken)
        self.native.outputs, self.native.num_outputs = self.hold(outputs), len(given)
        self.parameters, self.outputs = parameters, outputs

    @property
    def results(self) -> tuple[Leaf, ...]:
        """The results of one device."""
        return self.shards.local(self.boundary) if self.shards else self.boundary.results

    def layouts(self, rows: Any, count: int) -> int:
        """Return the address of a list of layouts, one per row."""
        return self.hold(words(row.layout or layout_address(()) for row in rows[:count]))

    def donated(self, args: Any) -> list[int]:
        """Return the numbers of the donated arguments of an execution."""
        options = structure("PJRT_ExecuteOptions").from_address(args.options)
        kept = words_at(
            options.non_donatable_input_indices, options.num_non_donatable_input_indices
        )
        rows = self._aliases[: self.native.num_aliases]
        return [row.parameter for row in rows if row.parameter not in kept]

    def _fill_aliases(self) -> None:
        """Write the aliases of hloc, whose leaf numbers omit tokens."""
        taken = [i for i, leaf in enumerate(self.boundary.parameters) if leaf.type != TOKEN]
        given = [i for i, leaf in enumerate(self.boundary.results) if leaf.type != TOKEN]
        rows = (structure("Alias") * max(len(self.run.aliases), 1))()
        for row, alias in zip(rows, self.run.aliases, strict=False):
            row.parameter, row.output = taken[alias.parameter], given[alias.output]
            row.shared, row.copied = int(alias.is_shared), int(alias.how == "in place")
        self._aliases = rows
        self.native.aliases, self.native.num_aliases = self.hold(rows), len(self.run.aliases)

    # ---- rare queries

    @cached_property
    def optimized(self) -> Any:
        """The module with its configuration, without which jaxlib crashes."""
        config = message_field(1, self.boundary.program_shape)
        shardings = self.shards.shardings if self.shards else b""
        data = message_field(1, self.request.proto + shardings) + message_field(2, config)
        return ctypes.create_string_buffer(data, len(data))

    @cached_property
    def fingerprint(self) -> bytes:
        """A digest of the HloModuleProto, the options and the version of hloc."""
        from hashlib import sha256

        parts = (__version__.encode(), self.request.proto, self.request.options)
        return sha256(b"".join(message_field(1, part) for part in parts)).hexdigest().encode()

    @cached_property
    def costs(self) -> tuple[int, int]:
        """The named values of the cost analysis."""
        from hloc.analysis.cost import module_cost
        from hloc.driver import read_snapshot

        found = module_cost(read_snapshot(self.request.proto, name=self.boundary.name).module)
        return named_values(
            {
                "flops": float(found.flops),
                "transcendentals": float(found.transcendentals),
                "bytes accessed": float(found.bytes),
                "bytes accessedout{}": float(found.bytes_written),
            }
        )


def _order(spec: ArraySpec | None, leaf: Leaf) -> tuple[int, ...]:
    """Return the dimensions of a leaf from minor to major."""
    if spec is None or spec.order is None:
        return row_major(len(leaf.dims))
    return tuple(reversed(spec.order))


def program_at(address: int) -> Program:
    """Return the program with that handle."""
    return PROGRAMS[structure("PJRT_Executable").from_address(address).id]


def retire(number: int) -> int:
    """Free a program without references; called by machine code."""
    program = PROGRAMS.pop(number, None)
    if program is not None and program.native.arena:
        machine().function("free_memory", 1)(program.native.arena)
    return 0


# ---------------------------------------------------------------- functions of the C API


def PJRT_Executable_OptimizedProgram(args: Any) -> None:
    program = structure("PJRT_Program").from_address(args.program)
    data = program_at(args.executable).optimized
    name = b"hlo_with_config"
    program.format, program.format_size = text(name), len(name)
    program.code_size = len(data)
    if program.code:
        ctypes.memmove(program.code, data, len(data))


def PJRT_Executable_SizeOfGeneratedCodeInBytes(args: Any) -> None:
    args.size_in_bytes = 0


def PJRT_Executable_GetCostAnalysis(args: Any) -> None:
    args.properties, args.num_properties = program_at(args.executable).costs


def PJRT_Executable_GetCompiledMemoryStats(args: Any) -> None:
    for name, _ in type(args)._fields_[3:]:  # the caller does not initialise them
        setattr(args, name, 0)
    program = program_at(args.executable)
    report = program.run.buffers
    args.temp_size_in_bytes = report.arena_bytes
    args.output_size_in_bytes = report.output_bytes + report.aliased_bytes
    args.alias_size_in_bytes = report.aliased_bytes
    args.argument_size_in_bytes = sum(spec.shape.size_bytes for spec in program.run.parameters)
    total = args.temp_size_in_bytes + args.output_size_in_bytes + args.argument_size_in_bytes
    args.peak_memory_in_bytes = total - report.aliased_bytes
    args.total_size_in_bytes = total - report.aliased_bytes


def PJRT_Executable_OutputElementTypes(args: Any) -> None:
    program = program_at(args.executable)
    types = (ctypes.c_int32 * max(len(program.boundary.results), 1))(
        *(leaf.type for leaf in program.results)
    )
    args.output_types = program.hold(types)
    args.num_output_types = len(program.boundary.results)


def PJRT_Executable_OutputDimensions(args: Any) -> None:
    program = program_at(args.executable)
    results = program.results
    args.num_outputs = len(results)
    args.dims = program.hold(words(dim for leaf in results for dim in leaf.dims))
    args.dim_sizes = program.hold(words(len(leaf.dims) for leaf in results))


def PJRT_Executable_OutputMemoryKinds(args: Any) -> None:
    program = program_at(args.executable)
    count = len(program.boundary.results)
    names = [MEMORY_KINDS[row.memory] for row in program.outputs[:count]]
    args.num_outputs = count
    args.memory_kinds = program.hold(words(text(name) for name in names))
    args.memory_kind_sizes = program.hold(words(len(name) for name in names))


def PJRT_Layouts_PJRT_Executable_GetOutputLayouts(args: Any) -> None:
    program = program_at(args.executable)
    args.num_outputs = len(program.results)
    args.layouts = program.layouts(program.outputs, args.num_outputs)


def PJRT_Layouts_PJRT_Executable_GetParameterLayouts(args: Any) -> None:
    program = program_at(args.executable)
    args.num_parameters = len(program.boundary.parameters)
    args.layouts = program.layouts(program.parameters, args.num_parameters)


def PJRT_LoadedExecutable_GetDeviceAssignment(args: Any) -> None:
    program = program_at(args.executable)
    _hand_out(args, "serialized_device_assignment", program, program.request.assignment)


def PJRT_Executable_GetCompileOptions(args: Any) -> None:
    program = program_at(args.executable)
    _hand_out(args, "serialized_compile_options", program, program.request.options)


def _hand_out(args: Any, name: str, program: Program, data: bytes) -> None:
    """Return bytes to the caller; they live as long as the program."""
    address = program.hold(ctypes.create_string_buffer(data))
    args.serialized_bytes, args.serialized_bytes_size = address, len(data)
    setattr(args, name, address)
    setattr(args, f"{name}_deleter", machine().addresses["nothing"])


def PJRT_Executable_Fingerprint(args: Any) -> None:
    data = program_at(args.executable).fingerprint
    args.executable_fingerprint, args.executable_fingerprint_size = text(data), len(data)


PJRT_LoadedExecutable_Fingerprint = PJRT_Executable_Fingerprint
