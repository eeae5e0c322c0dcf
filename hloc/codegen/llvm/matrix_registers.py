"""Permission to use AMX: Linux reserves room for tile registers only in processes that ask.

Source: Linux, Documentation/arch/x86/xstate.rst.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache

_ARCH_PRCTL = 158
"""Number of the system call on x86-64."""

_REQUEST_PERMISSION, _TILE_DATA = 0x1023, 18


@cache
def allow_matrix_registers() -> bool:
    """Ask the kernel once; True if this process and its threads may use AMX from now on."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        call = ctypes.CDLL(None).syscall
    except (OSError, AttributeError):
        return False
    call.restype = ctypes.c_long
    arguments = (ctypes.c_long(x) for x in (_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA))
    return bool(call(*arguments) == 0)


def permission_text() -> str:
    """Return LLVM text for objects: a constructor that asks when the program is loaded.

    Where permission is denied, or the system has no such call, the first gemm ends the program
    with SIGILL, as any instruction does that the processor lacks.
    """
    call = (
        '  %answer = call i64 asm sideeffect "syscall", '
        '"={rax},{rax},{rdi},{rsi},~{rcx},~{r11},~{memory}"'
        f"(i64 {_ARCH_PRCTL}, i64 {_REQUEST_PERMISSION}, i64 {_TILE_DATA})"
    )
    return "\n".join(
        (
            "@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] "
            "[{ i32, ptr, ptr } { i32 65535, ptr @hloc.matrix_registers, ptr null }]",
            "define internal void @hloc.matrix_registers() nounwind {",
            call,
            "  ret void",
            "}",
            "",
        )
    )


def uses_matrix_registers(text: str) -> bool:
    """True if a unit of LLVM text contains AMX instructions."""
    return "@llvm.x86.ldtilecfg" in text
