"""Address space that the limit of this process leaves (`ulimit -v`).

OpenBLAS and LLVM end the process when they run out of memory, so neither is started with too
little.
"""

from __future__ import annotations

import os
from contextlib import suppress

NUMPY_BYTES = 96 << 20
"""NumPy with one thread of OpenBLAS takes 84 MiB; each further thread takes 40 MiB."""

LLVM_BYTES, LLVM_BYTES_PER_CHARACTER = 24 << 20, 200
"""Approximate memory of LLVM for one compilation, besides its library."""

_AMPLE_BYTES = 4 << 30


def space_left_bytes() -> int | None:
    """Return the bytes that this process may still map, None without a limit."""
    with suppress(ImportError, OSError, ValueError):
        from resource import RLIM_INFINITY, RLIMIT_AS, getrlimit

        limit = getrlimit(RLIMIT_AS)[0]
        if limit != RLIM_INFINITY:
            with open("/proc/self/statm") as file:
                return limit - int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    return None


def require_space(size_bytes: int, what: str) -> None:
    """Raise MemoryError, with `what` as its subject, if the limit leaves fewer bytes."""
    left = space_left_bytes()
    if left is not None and left < size_bytes:
        raise MemoryError(
            f"out of memory: {what} needs {size_bytes >> 20} MiB of address space, and the limit "
            f"of this process (ulimit -v) leaves {max(left, 0) >> 20} MiB"
        )


def prepare_numpy() -> None:
    """Keep NumPy small under a limit; raises MemoryError if it cannot be loaded."""
    left = space_left_bytes()
    if left is not None and left < _AMPLE_BYTES:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        require_space(NUMPY_BYTES, "loading NumPy")
