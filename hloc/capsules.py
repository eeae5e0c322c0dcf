"""Addresses in capsules: how extension modules of Python hand on pointers."""

from __future__ import annotations

import ctypes
from typing import Any


def address_in(capsule: Any) -> int:
    """Return the address that a capsule holds."""
    name_of, pointer_of = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address: int = pointer_of(capsule, name_of(capsule))
    return address
