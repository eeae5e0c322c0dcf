"""SciPy's LAPACK: the addresses of its routines, and their working memory."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
from collections.abc import Sequence
from functools import cache
from typing import Any

from hloc.errors import UnsupportedError
from hloc.ops.blas import address_in


@cache
def has_lapack() -> bool:
    """True if SciPy is installed."""
    return importlib.util.find_spec("scipy") is not None


@cache
def lapack_address(name: str) -> int:
    """Return the address of a routine such as `ssyevd`, with Fortran's calling convention.

    Raises:
        UnsupportedError: SciPy is not installed.
    """
    try:
        functions = importlib.import_module("scipy.linalg.cython_lapack").__pyx_capi__
    except ImportError:
        raise UnsupportedError(
            f"{name} is a routine of SciPy's LAPACK, which the extra hloc[lapack] installs"
        ) from None
    return address_in(functions[name])


def call_lapack(name: str, arguments: Sequence[Any]) -> None:
    """Call a routine with pointers to the arguments, which are ctypes values or None.

    Raises:
        UnsupportedError: SciPy is not installed.
    """
    pointers = [None if value is None else ctypes.addressof(value) for value in arguments]
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(pointers))
    function(lapack_address(name))(*pointers)
