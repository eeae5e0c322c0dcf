"""Executables as bytes, for JAX's compilation cache and `jax.experimental.serialize_executable`.

The bytes contain the HloModuleProto and the compile options, but no machine code: that is in hloc's
own cache, and a machine that has not compiled the program yet compiles it when it loads it.
"""

from __future__ import annotations

import ctypes
from typing import Any

from hloc.formats.wire import WireFault, fields
from hloc.pjrt.boundary import message_field
from hloc.pjrt.compiling import compiled
from hloc.pjrt.machine.load import machine
from hloc.pjrt.native import PjrtError, bytes_at
from hloc.pjrt.programs import program_at

_MAGIC = b"hloc executable 1\n"
_PROTO, _OPTIONS = 1, 2


def serialized(proto: bytes, options: bytes) -> bytes:
    """Return a program and its CompileOptionsProto as bytes."""
    return _MAGIC + message_field(_PROTO, proto) + message_field(_OPTIONS, options)


def deserialized(data: bytes) -> tuple[bytes, bytes]:
    """Return the program and the options that `serialized` was given.

    Raises:
        PjrtError: the bytes are not a serialized executable, or damaged.
    """
    try:
        if not data.startswith(_MAGIC):
            raise WireFault("it does not begin like one")
        found = {n: data[a:b] for n, _, a, b in fields(data, len(_MAGIC), len(data))}
        return found[_PROTO], found[_OPTIONS]
    except (WireFault, KeyError) as fault:
        raise PjrtError(
            "INVALID_ARGUMENT", f"not an executable serialized by hloc: {fault}"
        ) from None


def PJRT_Executable_Serialize(args: Any) -> None:
    program = program_at(args.executable)
    data = serialized(program.request.proto, program.request.options)
    storage = ctypes.create_string_buffer(data, len(data))
    program.kept.append(storage)  # jaxlib copies it at once
    args.serialized_executable = args.serialized_bytes = ctypes.addressof(storage)
    args.serialized_bytes_size = len(data)
    args.serialized_executable_deleter = machine().addresses["nothing"]


def PJRT_Executable_DeserializeAndLoad(args: Any) -> None:
    data = bytes_at(args.serialized_executable, args.serialized_executable_size)
    proto, options = deserialized(data)
    overrides = bytes_at(
        args.overridden_serialized_compile_options, args.overridden_serialized_compile_options_size
    )
    args.loaded_executable = compiled(args.client, proto, "hlo", overrides or options).address
