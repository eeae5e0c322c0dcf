"""Handlers that were registered with JAX, as targets of custom calls."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from hloc.dtypes import Array
from hloc.ir.instruction import Instruction
from hloc.ops.custom_calls.custom_call_targets import CustomCallTarget, Fill, add_target
from hloc.pjrt.callbacks import with_new_results
from hloc.pjrt.ffi.frames import HandlerCall
from hloc.pjrt.ffi.registered import registered_handlers
from hloc.pjrt.native import bytes_at, words
from hloc.shapes import TupleShape

_TYPED, _PLAIN = "API_VERSION_TYPED_FFI", "API_VERSION_ORIGINAL"
_added: set[str] = set()
_PLAIN_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


def add_registered_targets() -> None:
    """Register all targets that are registered with JAX for the CPU."""
    for name, found in registered_handlers().items():
        if name in _added:
            continue
        _added.add(name)
        if isinstance(found, int):
            _add(name, "a function of C", _PLAIN, partial(_plain_call, found))
        else:
            add_handlers(name, found)


def add_handlers(name: str, handlers: Mapping[str, int]) -> None:
    """Register the target `name` with handlers, given by their addresses by stage."""
    _add(name, "a handler of the XLA FFI", _TYPED, partial(HandlerCall, handlers))


def _add(name: str, reads: str, version: str, fill: Any) -> None:
    def fits(inst: Instruction) -> bool:
        return bool(inst.attributes.api_version == version)

    add_target(name, CustomCallTarget(reads, fits, with_new_results(fill), fill=fill))


def _plain_call(address: int, inst: Instruction) -> Fill:
    """Return a function that calls `void f(void* result, const void** operands)`, row-major.

    A tuple of results is an array of pointers.
    """
    function, is_tuple = _PLAIN_FUNCTION(address), isinstance(inst.shape, TupleShape)

    def call(operands: Sequence[Array], results: Sequence[Array]) -> None:
        given = [np.ascontiguousarray(operand) for operand in operands]
        contiguous = [np.ascontiguousarray(result) for result in results]
        pointers = words(array.ctypes.data for array in contiguous)
        target = ctypes.addressof(pointers) if is_tuple else pointers[0]
        function(target, ctypes.addressof(words(array.ctypes.data for array in given)))
        for result, array in zip(results, contiguous, strict=True):
            np.copyto(result, array)

    return call


# ---------------------------------------------------------------- functions of the FFI extension


def PJRT_FFI_Register_Handler(args: Any) -> None:
    name = bytes_at(args.target_name, args.target_name_size).decode("utf-8", "replace")
    add_handlers(name, {"execute": args.handler})
