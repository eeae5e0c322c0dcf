"""The table of functions for jaxlib: machine code if available, else Python."""

from __future__ import annotations

import atexit
import ctypes
import mmap
import os
import signal
import time
from collections.abc import Callable
from functools import cache, partial
from types import ModuleType
from typing import Any

from hloc.memory.aligned_array import LARGE_PAGE_BYTES
from hloc.pjrt import callbacks, client, compiling, programs, serialise, slow
from hloc.pjrt.abi import LAST_FUNCTION, MAJOR_VERSION, MINOR_VERSION, enum, layout, structure
from hloc.pjrt.buffer_callbacks import add_buffer_callbacks
from hloc.pjrt.element_types import TOKEN, dtypes
from hloc.pjrt.ffi import targets
from hloc.pjrt.forks import after_fork
from hloc.pjrt.layouts import row_major_layouts
from hloc.pjrt.machine.load import machine
from hloc.pjrt.native import PjrtError, error_address, keep, state, words

_MODULES: tuple[ModuleType, ...] = (
    callbacks,
    client,
    compiling,
    programs,
    serialise,
    slow,
    targets,
)
"""The modules with the Python functions of the C API."""

_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
_RETIRE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)


@cache
def api_table() -> int:
    """Return the address of the only `PJRT_Api`."""
    _start()
    table = structure("PJRT_Api")()
    offsets = layout("PJRT_Api").fields
    table.struct_size = offsets[LAST_FUNCTION].offset + 8
    table.pjrt_api_version.struct_size = ctypes.sizeof(table.pjrt_api_version)
    table.pjrt_api_version.major_version = MAJOR_VERSION
    table.pjrt_api_version.minor_version = MINOR_VERSION
    names = [name for name, field in offsets.items() if field.type == "void*"]
    for name in names[: names.index(LAST_FUNCTION) + 1]:
        setattr(table, name, function_address(name))
    table.extension_start = _extension("Layouts", _extension("FFI", 0))
    return keep(table)


def function_address(name: str) -> int:
    """Return the address of a function of the C API."""
    return machine().addresses.get(name) or _python_function(name)


def _python_function(name: str) -> int:
    found = [getattr(module, name) for module in _MODULES if hasattr(module, name)]
    return _callback(name, found[0]) if found else _address(_CALLBACK(partial(_refuse, name)))


def _refuse(name: str, _arguments: int) -> int:
    return error_address(PjrtError("UNIMPLEMENTED", f"hloc does not implement {name}"))


def _callback(name: str, function: Callable[[Any], int | None]) -> int:
    """Return the address of a C function that calls `function`; exceptions become errors."""
    arguments = structure(f"{name}_Args")

    def call(address: int) -> int:
        try:
            return function(arguments.from_address(address)) or 0
        except BaseException as fault:
            return error_address(fault)

    return _address(_CALLBACK(call))


def _address(callback: Any) -> int:
    """Keep a callback; return its address."""
    keep(callback)
    address = ctypes.cast(callback, ctypes.c_void_p).value
    assert address is not None
    return address


# ---------------------------------------------------------------- extensions


def _extension(kind: str, following: int) -> int:
    """Return the address of the extension table of a kind, with its functions."""
    name = f"PJRT_{kind}_Extension"
    table = structure(name)()
    table.base.struct_size = ctypes.sizeof(table)
    table.base.type = enum("PJRT_Extension_Type")[kind]
    table.base.next = following
    for field in layout(name).fields.values():
        if field.name != "base":
            setattr(table, field.name, function_address(field.type.removesuffix("*")))
    return keep(table)


# ---------------------------------------------------------------- the state of machine code


def _start() -> None:
    """Initialise the state, start the worker, and register handlers of exit and of forks."""
    callbacks.add_targets()
    add_buffer_callbacks()
    code, shared = machine(), state()
    shared.clock = int(time.CLOCK_MONOTONIC)
    shared.fallbacks = keep(words(_callback(name, getattr(slow, name)) for name in code.fallbacks))
    shared.retire = _address(_RETIRE(programs.retire))
    sizes = {number: dtype.numpy.itemsize for number, dtype in dtypes().items()}
    shared.element_bytes = keep(words(sizes.get(i, 0) for i in range(max(*sizes, TOKEN) + 9)))
    shared.layouts = row_major_layouts()
    shared.kept = keep(words([0] * 4))
    if hasattr(mmap, "MADV_HUGEPAGE"):
        shared.huge_page_bytes, shared.huge_page_advice = LARGE_PAGE_BYTES, mmap.MADV_HUGEPAGE
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        code.function("hloc_pjrt_start")()  # the worker inherits the signal mask
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    _watch_interrupts()
    os.register_at_fork(after_in_child=after_fork)
    atexit.register(_close)


def _watch_interrupts() -> None:
    """Let Ctrl-C end the current run, for which Python waits, before Python handles it."""
    if not callable(signal.getsignal(signal.SIGINT)):
        return
    install = ctypes.CDLL(None).signal
    install.restype, install.argtypes = ctypes.c_void_p, (ctypes.c_int, ctypes.c_void_p)
    state().handler = install(signal.SIGINT, machine().addresses["hloc_pjrt_interrupt"])
    signal.siginterrupt(signal.SIGINT, True)


def _close() -> None:
    """End the worker; machine code no longer calls Python."""
    if not state().forked:
        machine().function("hloc_pjrt_finish")()
    state().closed = 1
