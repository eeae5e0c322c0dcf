"""System calls for which Python has no function, made with ctypes.

Numbers and constants are those of Linux's headers (`asm/unistd.h`, `linux/sched.h`,
`linux/mount.h`, `linux/prctl.h`); arguments are integers, bytes and ctypes structures.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform

MACHINES = ("x86_64", "aarch64")
"""Machines whose system call numbers are known."""

_NUMBERS = {
    "prctl": (157, 167), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41),
    "unshare": (272, 97), "capset": (126, 91), "seccomp": (317, 277), "close_range": (436, 436),
    "mount_setattr": (442, 442), "landlock_create_ruleset": (444, 444),
    "landlock_add_rule": (445, 445), "landlock_restrict_self": (446, 446),
}  # fmt: skip
"""Numbers of each call on x86-64 and on AArch64."""

PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 24, 36, 38


def machine() -> str:
    """Return the name that Linux gives this machine's architecture."""
    return platform.machine()


def call(name: str, *arguments: object) -> int:
    """Return the result of the system call `name`.

    Raises:
        OSError: it failed; ENOSYS also where the number of the call is not known.
    """
    known = MACHINES.index(machine()) if machine() in MACHINES else None
    if known is None:
        raise OSError(errno.ENOSYS, f"{name} on {machine()}")
    result: int = _syscall()(ctypes.c_long(_NUMBERS[name][known]), *map(_argument, arguments))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)
    return result


def _argument(value: object) -> object:
    """Return a value as an argument of the C function; integers fill a register."""
    return ctypes.c_long(value) if isinstance(value, int) else value


def _syscall() -> ctypes._NamedFuncPointer:
    function = ctypes.CDLL(None, use_errno=True).syscall
    function.restype = ctypes.c_long
    return function
