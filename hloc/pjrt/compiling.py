"""`PJRT_Client_Compile`: compiles JAX's program to a `Program`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from hloc import driver
from hloc.formats.wire import fields
from hloc.pjrt.abi import structure
from hloc.pjrt.boundary import boundary_of, repeated_numbers
from hloc.pjrt.client import devices_of
from hloc.pjrt.compile_options import hloc_options
from hloc.pjrt.dumps import dump
from hloc.pjrt.ffi.targets import add_registered_targets
from hloc.pjrt.layouts import wishes_of, with_layouts
from hloc.pjrt.native import PjrtError, bytes_at
from hloc.pjrt.partitioned import (
    Shards,
    partitioned,
    shards_of,
)
from hloc.pjrt.programs import Program, Request
from hloc.pjrt.records import COMPILATIONS, Compilation
from hloc.runtime.executable import Executable
from hloc.runtime.program_cache import KeptModule

_CUSTOM_CALL = b"\x12\x0bcustom-call"
"""The opcode of a custom call in a serialized instruction."""

_COMPUTATION_DEVICES, _REPLICA_DEVICE_IDS = 3, 1  # of DeviceAssignmentProto


def PJRT_Client_Compile(args: Any) -> None:
    program = structure("PJRT_Program").from_address(args.program)
    code = bytes_at(program.code, program.code_size)
    kind = bytes_at(program.format, program.format_size).decode()
    options = bytes_at(args.compile_options, args.compile_options_size)
    args.executable = compiled(args.client, code, kind, options).address


def compiled(client: int, code: bytes, kind: str, options_bytes: bytes) -> Program:
    """Return a loaded program.

    Args:
        client: its address.
        code: the program.
        kind: `mlir` for StableHLO, as text or bytecode, or `hlo` for an HloModuleProto.
        options_bytes: a serialized CompileOptionsProto.

    Raises:
        HloError: hloc rejects the program.
        PjrtError: an unknown format, or an option that XLA does not have.
    """
    from jaxlib import _jax

    begin = time.perf_counter()
    options = _jax.CompileOptions.ParseFromString(options_bytes)
    ours = hloc_options(options.env_option_overrides)
    wishes = wishes_of(code)
    proto = with_layouts(to_proto(code, kind), wishes)
    if _CUSTOM_CALL in proto:
        add_registered_targets()
    boundary = boundary_of(proto)
    build = options.executable_build_options
    assignment = build.device_assignment
    present = devices_of(client)
    data = assignment.serialize() if assignment is not None else b""
    numbers = assignment_ids(data) if data else [0]
    request = Request(
        proto=proto,
        code=code,
        format=kind,
        options=options_bytes,
        replicas=build.num_replicas,
        partitions=build.num_partitions,
        devices=tuple(present[number] for number in numbers),
        assignment=data,
    )
    count = build.num_replicas * build.num_partitions
    if build.num_replicas > 1:
        raise PjrtError("UNIMPLEMENTED", "hloc runs programs of one replica only")
    found = partitioned(transformed(proto), proto, boundary, count) if count > 1 else None
    shards: Shards | None
    if found is not None:
        module, shards = found
        run = driver.compile_module(module.to_text(large_constants=True), ours)
    else:
        shards = shards_of(proto, boundary, count) if count > 1 else None
        run = driver.compile_proto(transformed(proto), boundary.name, ours)
    assert isinstance(run, Executable)
    program = Program(request, boundary, run, shards, wishes.memories)
    dump(program, build.debug_options, options.env_option_overrides)
    COMPILATIONS.append(
        Compilation(
            name=boundary.name,
            instructions=boundary.instructions,
            seconds=time.perf_counter() - begin,
            was_kept=isinstance(run.compiled, KeptModule),
            proto=proto,
        )
    )
    return program


TRANSFORMS: list[Callable[[bytes], bytes | None]] = []
"""Transformations of every program before compilation; each returns new bytes, or None."""


def transformed(proto: bytes) -> bytes:
    """Return a serialized HloModuleProto after all `TRANSFORMS`."""
    for transform in tuple(TRANSFORMS):
        proto = transform(proto) or proto
    return proto


def to_proto(code: bytes, kind: str) -> bytes:
    """Return the serialized HloModuleProto of a program.

    The proto preserves -0.0, which XLA's text prints like the integer 0.
    """
    from jaxlib import _jax

    if kind == "hlo":
        return code
    if kind != "mlir":
        raise PjrtError("UNIMPLEMENTED", f"hloc does not support programs in the format {kind!r}")
    computation = _jax.mlir.mlir_module_to_xla_computation(
        code, use_tuple_args=False, return_tuple=False
    )
    data: bytes = computation.as_serialized_hlo_module_proto()
    return data


def assignment_ids(data: bytes) -> list[int]:
    """Return the device numbers of a DeviceAssignmentProto, replica by replica."""
    rows = [
        repeated_numbers(data[start:end], _REPLICA_DEVICE_IDS)
        for number, _, start, end in fields(data, 0, len(data))
        if number == _COMPUTATION_DEVICES
    ]
    return [row[replica] for replica in range(len(rows[0])) for row in rows] if rows else [0]
