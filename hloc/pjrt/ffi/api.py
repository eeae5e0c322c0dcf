"""The functions that handlers call: errors, state, user data, threads, asynchronous results.

Messages are those of XLA:CPU, which has neither streams nor device memory.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from functools import cache
from typing import Any

from hloc.lazy_dataclass import dataclass
from hloc.pjrt.abi import enum
from hloc.pjrt.ffi.abi import MAJOR_VERSION, MINOR_VERSION, STRUCTURES, new
from hloc.pjrt.native import PjrtError, keep

_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
_TASK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@dataclass(slots=True, eq=False)
class Context:
    """The `XLA_FFI_ExecutionContext` of one call frame.

    Attributes:
        states: by stage, type id and address of a handler's state.
        user_data: address of the user data by type id.
    """

    states: dict[int, tuple[int, int]]
    user_data: dict[int, int] = field(default_factory=dict)
    device: int = 0
    run: int = 0
    word: Any = field(default_factory=ctypes.c_int64)

    @property
    def address(self) -> int:
        """The handle."""
        return ctypes.addressof(self.word)


@dataclass(slots=True, eq=False)
class Future:
    """An `XLA_FFI_Future`: the result of an asynchronous handler."""

    done: threading.Event = field(default_factory=threading.Event)
    error: PjrtError | None = None


CONTEXTS: dict[int, Context] = {}
"""The contexts of all call frames, by handle."""

_errors: dict[int, tuple[PjrtError, Any]] = {}
_futures: dict[int, Future] = {}
_handles = itertools.count(16, 16)


def error_handle(fault: PjrtError) -> int:
    """Return the handle of a new `XLA_FFI_Error`."""
    handle = next(_handles)
    _errors[handle] = fault, ctypes.create_string_buffer(str(fault).encode("utf-8", "replace"))
    return handle


def taken_error(handle: int) -> PjrtError:
    """Return the error of a handle, and delete the handle."""
    fault, _ = _errors.pop(handle, (PjrtError("UNKNOWN", "an unknown error handle"), None))
    return fault


def wait_for_future(handle: int) -> None:
    """Wait until a handler sets its future, and delete it.

    Raises:
        PjrtError: the error that it was set to.
    """
    future = _futures[handle]
    future.done.wait()
    del _futures[handle]
    if future.error is not None:
        raise future.error


@cache
def api_address() -> int:
    """Return the address of the `XLA_FFI_Api`; there is one."""
    table = new("XLA_FFI_Api")
    table.api_version = new(
        "XLA_FFI_Api_Version", major_version=MAJOR_VERSION, minor_version=MINOR_VERSION
    )
    for name in STRUCTURES.layout("XLA_FFI_Api").fields:
        if name.startswith("XLA_FFI_"):
            setattr(table, name, _function_address(name, _FUNCTIONS.get(name)))
    return keep(table)


def _function_address(name: str, function: Callable[[Any], int | None] | None) -> int:
    arguments = STRUCTURES.structure(f"{name}_Args")

    def call(address: int) -> int:
        try:
            if function is None:
                raise PjrtError("UNIMPLEMENTED", f"hloc has no {name} on a CPU")
            return function(arguments.from_address(address)) or 0
        except PjrtError as fault:
            return error_handle(fault)
        except BaseException as fault:
            return error_handle(PjrtError("INTERNAL", f"{type(fault).__name__}: {fault}"))

    callback = _FUNCTION(call)
    keep(callback)
    return ctypes.cast(callback, ctypes.c_void_p).value or 0


def _context(address: int) -> Context:
    try:
        return CONTEXTS[address]
    except KeyError:
        raise PjrtError("INVALID_ARGUMENT", "invalid execution context") from None


# ---------------------------------------------------------------- the functions


def _error_create(args: Any) -> int:
    text = ctypes.string_at(args.message) if args.message else b""
    names = {number: name for name, number in enum("PJRT_Error_Code").items()}
    return error_handle(PjrtError(names.get(args.errc, "UNKNOWN"), text.decode("utf-8", "replace")))


def _error_message(args: Any) -> None:
    found = _errors.get(args.error)
    args.message = ctypes.addressof(found[1]) if found else None


def _error_destroy(args: Any) -> None:
    _errors.pop(args.error, None)


def _handler_register(args: Any) -> None:
    raise PjrtError("UNIMPLEMENTED", "handlers are registered by jax.ffi.register_ffi_target")


def _no_gpu(_args: Any) -> None:
    raise PjrtError("UNIMPLEMENTED", "XLA FFI GPU context is not available")


def _user_data(args: Any) -> None:
    type_id = ctypes.c_int64.from_address(args.type_id).value
    data = _context(args.ctx).user_data.get(type_id)
    if data is None:
        raise PjrtError(
            "NOT_FOUND", f"User data with type id {type_id} not found in execution context"
        )
    args.data = data


def _state_set(args: Any) -> None:
    states = _context(args.ctx).states
    if args.stage in states:
        raise PjrtError("FAILED_PRECONDITION", "State is already set")
    states[args.stage] = ctypes.c_int64.from_address(args.type_id).value, args.state or 0


def _state_get(args: Any) -> None:
    found = _context(args.ctx).states.get(args.stage)
    if found is None:
        raise PjrtError("NOT_FOUND", "State is not set")
    type_id, state = found
    wanted = ctypes.c_int64.from_address(args.type_id).value
    if wanted != type_id:
        raise PjrtError(
            "INVALID_ARGUMENT", f"State has type id {type_id}, but {wanted} is requested"
        )
    args.state = state


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count() or 1, "hloc-ffi")


def _schedule(args: Any) -> None:
    _pool().submit(_TASK(args.task), args.data)


def _threads(args: Any) -> None:
    ctypes.c_int64.from_address(args.num_threads).value = os.cpu_count() or 1


def _future_create(args: Any) -> None:
    args.future = next(_handles)
    _futures[args.future] = Future()


def _future(handle: int) -> Future:
    try:
        return _futures[handle]
    except KeyError:
        raise PjrtError("INVALID_ARGUMENT", "invalid future") from None


def _future_available(args: Any) -> None:
    _future(args.future).done.set()


def _future_error(args: Any) -> None:
    future = _future(args.future)
    future.error = taken_error(args.error)
    future.done.set()


def _run_id(args: Any) -> None:
    args.run_id = _context(args.ctx).run


def _device(args: Any) -> None:
    args.device_ordinal = _context(args.ctx).device


_FUNCTIONS: dict[str, Callable[[Any], int | None]] = {
    "XLA_FFI_Error_Create": _error_create,
    "XLA_FFI_Error_GetMessage": _error_message,
    "XLA_FFI_Error_Destroy": _error_destroy,
    "XLA_FFI_Handler_Register": _handler_register,
    "XLA_FFI_Stream_Get": _no_gpu,
    "XLA_FFI_ExecutionContext_Get": _user_data,
    "XLA_FFI_State_Set": _state_set,
    "XLA_FFI_State_Get": _state_get,
    "XLA_FFI_DeviceMemory_Allocate": _no_gpu,
    "XLA_FFI_DeviceMemory_Free": _no_gpu,
    "XLA_FFI_ThreadPool_Schedule": _schedule,
    "XLA_FFI_ThreadPool_NumThreads": _threads,
    "XLA_FFI_Future_Create": _future_create,
    "XLA_FFI_Future_SetAvailable": _future_available,
    "XLA_FFI_Future_SetError": _future_error,
    "XLA_FFI_RunId_Get": _run_id,
    "XLA_FFI_DeviceOrdinal_Get": _device,
}
