"""SciPy's BLAS and LAPACK: the addresses of their routines, and calls of LAPACK."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
from collections.abc import Sequence
from functools import cache
from typing import Any

from hloc.capsules import address_in
from hloc.errors import UnsupportedError


@cache
def has_lapack() -> bool:
    """True if SciPy is installed."""
    return importlib.util.find_spec("scipy") is not None


@cache
def routine_address(library: str, name: str) -> int:
    """Return the address of a routine, with Fortran's calling convention.

    Args:
        library: `blas` or `lapack`.
        name: such as `dgemm` or `ssyevd`.

    Raises:
        UnsupportedError: SciPy is not installed.
    """
    try:
        functions = importlib.import_module(f"scipy.linalg.cython_{library}").__pyx_capi__
    except ImportError:
        raise UnsupportedError(
            f"{name} is a routine of SciPy's {library.upper()}, "
            "which the extra hloc[lapack] installs"
        ) from None
    return address_in(functions[name])


def call_lapack(name: str, arguments: Sequence[Any]) -> None:
    """Call a routine with pointers to the arguments, which are ctypes values or None.

    Raises:
        UnsupportedError: SciPy is not installed.
    """
    pointers = [None if value is None else ctypes.addressof(value) for value in arguments]
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(pointers))
    function(routine_address("lapack", name))(*pointers)
