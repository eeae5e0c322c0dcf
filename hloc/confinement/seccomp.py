"""The filter of system calls of a confined process: a program of classic BPF.

It allows the calls of `call_table`, and a few calls for certain values of one argument. The numbers
mean other calls in 32-bit code and in x86-64's second table (x32); there the filter ends the
process.
"""

from __future__ import annotations

import ctypes
import errno
import struct

from hloc.confinement.call_table import ALLOWED, REFUSED
from hloc.confinement.kernel import MACHINES, PR_SET_NO_NEW_PRIVS, call, machine

_LOAD, _EQUAL, _AT_LEAST, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
_ALLOW, _KILL_PROCESS, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32_BIT = 0x40000000
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16
_SECCOMP_SET_MODE_FILTER = 1

_CLONE_THREAD, _CLONE_NEW_NAMESPACE = 0x00010000, 0x7E020080
_CLONE = {"x86_64": 56, "aarch64": 220}

_BY_ARGUMENT: dict[str, tuple[tuple[int | None, int | None], int, tuple[int, ...]]] = {
    "prctl": ((157, 167), 0, (
        15, 16,  # PR_SET_NAME, PR_GET_NAME
        0x53564D41,  # PR_SET_VMA: the C library names its memory
    )),
    "ioctl": ((16, 29), 1, (
        0x5401, 0x5413,  # TCGETS, TIOCGWINSZ: is it a terminal
        0x541B, 0x5421, 0x5450, 0x5451,  # FIONREAD, FIONBIO, FIONCLEX, FIOCLEX
    )),
    "arch_prctl": ((158, None), 0, (0x1021, 0x1022, 0x1023)),  # the tile registers of AMX
}  # fmt: skip
"""Calls allowed for some values of an argument: call numbers, position, values."""

Instruction = tuple[int, int, int, int]
"""Code, jumps if true and if false, operand."""


def program(machine_name: str, *, threads: bool) -> list[Instruction]:
    """Return the filter for a machine; `threads` allows the process to start threads."""
    which = MACHINES.index(machine_name)
    instructions: list[Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_EQUAL, 1, 0, _ARCHITECTURES[machine_name]),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_LOAD, 0, 0, _NUMBER_AT),
    ]
    if machine_name == "x86_64":
        instructions += [(_AT_LEAST, 0, 1, _X32_BIT), (_RETURN, 0, 0, _KILL_PROCESS)]
    for table, result in ((ALLOWED, _ALLOW), (REFUSED, _ERRNO | errno.EPERM)):
        for numbers in table.values():
            if (number := numbers[which]) is not None:
                instructions += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, result)]
    for numbers, place, values in _BY_ARGUMENT.values():
        if (number := numbers[which]) is not None:
            instructions += _by_argument(number, place, values)
    instructions += _clone(_CLONE[machine_name]) if threads else _refused(_CLONE[machine_name])
    # clone3 fails too: its flags are in memory, where a filter cannot see them. Libraries then use
    # clone.
    instructions += [(_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]
    return instructions


def _by_argument(number: int, place: int, values: tuple[int, ...]) -> list[Instruction]:
    tests: list[Instruction] = []
    for value in values:
        tests += [(_EQUAL, 0, 1, value), (_RETURN, 0, 0, _ALLOW)]
    body = [(_LOAD, 0, 0, _ARGUMENTS_AT + 8 * place), *tests, (_RETURN, 0, 0, _ERRNO | errno.EPERM)]
    return [(_EQUAL, 0, len(body), number), *body]


def _clone(number: int) -> list[Instruction]:
    """Allow threads, and no other process."""
    return [
        (_EQUAL, 0, 5, number),
        (_LOAD, 0, 0, _ARGUMENTS_AT),
        (_AND, 0, 0, _CLONE_THREAD | _CLONE_NEW_NAMESPACE),
        (_EQUAL, 0, 1, _CLONE_THREAD),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _ERRNO | errno.EPERM),
    ]


def _refused(number: int) -> list[Instruction]:
    return [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERRNO | errno.EPERM)]


class _Program(ctypes.Structure):
    """`struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def install(*, threads: bool) -> None:
    """Filter the system calls of this process from now on.

    Raises:
        OSError: the kernel refuses the filter.
    """
    call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    instructions = program(machine(), threads=threads)
    packed = b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions)
    head = _Program(len(instructions), packed)
    call("seccomp", _SECCOMP_SET_MODE_FILTER, 0, ctypes.byref(head))
