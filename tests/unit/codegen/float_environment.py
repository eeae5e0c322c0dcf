"""The environment of floats of a thread: how it computes, and what it has met."""

from __future__ import annotations

import ctypes
import platform

import pytest

CONTROL = 0xFFC0
"""Bits of MXCSR that say how the processor computes; the others say what has happened."""
SUBNORMAL_OPERAND = 1 << 1
"""The bit of MXCSR that says that an operand was a subnormal number."""

needs_fenv = pytest.mark.skipif(
    (platform.machine(), platform.libc_ver()[0]) != ("x86_64", "glibc"),
    reason="the form of the environment is that of glibc on x86-64",
)


class Environment:
    """The environment of floats of this thread, as the C library hands it out."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libm.so.6")
        self.words = (ctypes.c_uint32 * 8)()
        self.load()

    def load(self) -> int:
        """Return the control bits of MXCSR."""
        return self._register() & CONTROL

    def _register(self) -> int:
        assert self.library.fegetenv(self.words) == 0
        return self.words[7]

    def store(self, control: int) -> None:
        self.words[7] = control
        assert self.library.fesetenv(self.words) == 0

    def met_subnormals(self) -> bool:
        """True if an operand was a subnormal number since the last call; forget it."""
        register = self._register()
        self.store(register & CONTROL)
        return bool(register & SUBNORMAL_OPERAND)
