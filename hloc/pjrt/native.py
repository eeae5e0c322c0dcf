"""C objects that Python creates and that live as long as the process, and errors.

jaxlib keeps their addresses until after Python is finalised, so nothing here is ever freed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from functools import cache
from typing import Any

from hloc.errors import HloError, OutOfMemoryError, UnsupportedError
from hloc.pjrt.abi import enum, structure
from hloc.pjrt.machine.load import machine


class PjrtError(Exception):
    """An error for jaxlib; `code` is a member of `PJRT_Error_Code`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = enum("PJRT_Error_Code")[code]


def error_address(fault: BaseException) -> int:
    """Return a new `PJRT_Error` for an exception."""
    codes = enum("PJRT_Error_Code")
    message = str(fault)
    if isinstance(fault, PjrtError):
        code = fault.code
    elif isinstance(fault, UnsupportedError):
        code = codes["UNIMPLEMENTED"]
    elif isinstance(fault, OutOfMemoryError):
        code, message = codes["RESOURCE_EXHAUSTED"], f"Out of memory: {fault.message}."
    elif isinstance(fault, HloError):
        code = codes["INVALID_ARGUMENT"]
    elif isinstance(fault, MemoryError):
        code, message = codes["RESOURCE_EXHAUSTED"], f"Out of memory. {message}"
    elif isinstance(fault, KeyboardInterrupt):
        code, message = codes["CANCELLED"], "The run was interrupted."
    else:
        code, message = codes["INTERNAL"], f"{type(fault).__name__}: {fault}"
    data = message.encode("utf-8", "replace")
    address: int = machine().function("fail", 3)(code, text(data), len(data))
    return address


def keep_object(thing: Any) -> None:
    """Keep an object for the life of the process."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def keep(thing: Any) -> int:
    """Keep a ctypes object for the life of the process; return its address."""
    keep_object(thing)
    return ctypes.addressof(thing)


@cache
def text(value: str | bytes) -> int:
    """Return the address of a text that is never freed."""
    data = value.encode() if isinstance(value, str) else value
    return keep(ctypes.create_string_buffer(data, len(data) + 1))


def bytes_at(address: int | None, size: int) -> bytes:
    """Return `size` bytes of memory."""
    return ctypes.string_at(address, size) if address and size else b""


def words(values: Iterable[int]) -> Any:
    """Return an array of 64-bit integers, or of addresses."""
    values = list(values)
    return (ctypes.c_int64 * max(len(values), 1))(*values)


def words_at(address: int | None, count: int) -> list[int]:
    """Return `count` 64-bit integers of memory."""
    return list((ctypes.c_int64 * count).from_address(address)) if address and count else []


def state() -> Any:
    """Return the `State` of the process."""
    return structure("State").from_address(machine().function("hloc_pjrt_state")())


def named_values(values: dict[str, int | float | str | tuple[int, ...]]) -> tuple[int, int]:
    """Return the address and length of a new array of `PJRT_NamedValue`."""
    kinds = enum("PJRT_NamedValue_Type")
    array = (structure("PJRT_NamedValue") * max(len(values), 1))()
    for slot, (name, value) in zip(array, values.items(), strict=False):
        slot.struct_size = ctypes.sizeof(slot)
        slot.name, slot.name_size, slot.value_size = text(name), len(name), 1
        place = ctypes.addressof(slot) + type(slot).string_value.offset
        if isinstance(value, float):
            slot.type = kinds["PJRT_NamedValue_kFloat"]
            ctypes.c_float.from_address(place).value = value
        elif isinstance(value, int):
            slot.type = kinds["PJRT_NamedValue_kInt64"]
            ctypes.c_int64.from_address(place).value = value
        elif isinstance(value, str):
            slot.type = kinds["PJRT_NamedValue_kString"]
            slot.string_value, slot.value_size = text(value), len(value.encode())
        else:
            slot.type = kinds["PJRT_NamedValue_kInt64List"]
            slot.string_value, slot.value_size = keep(words(value)), len(value)
    return keep(array), len(values)
