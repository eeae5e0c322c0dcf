"""Landlock: which files a process may reach, kept by the kernel whatever its rights are.

The rights are those of `linux/landlock.h`. A kernel refuses a right that it does not know, so each
is handled from the version (ABI) on that has it; version 6 brings the last of those used here.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
from collections.abc import Sequence

from hloc.confinement.kernel import PR_SET_NO_NEW_PRIVS, call

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_FOLDER, _REMOVE_FOLDER, _REMOVE_FILE = 1, 2, 4, 8, 16, 32
_MAKE_CHAR, _MAKE_FOLDER, _MAKE_FILE, _MAKE_SOCKET, _MAKE_PIPE = 64, 128, 256, 512, 1024
_MAKE_BLOCK, _MAKE_LINK, _REFER, _TRUNCATE, _IOCTL = 2048, 4096, 8192, 16384, 32768

_FILE_RIGHTS = {1: (1 << 13) - 1, 2: _REFER, 3: _TRUNCATE, 5: _IOCTL}
_NETWORK_RIGHTS = {4: 0b11}  # bind and connect over TCP
_SCOPES = {6: 0b11}  # abstract Unix sockets, signals

_READ = _READ_FILE | _READ_FOLDER
_WRITE = (
    _READ | _WRITE_FILE | _TRUNCATE | _MAKE_FILE | _MAKE_FOLDER | _MAKE_LINK | _REFER
    | _REMOVE_FILE | _REMOVE_FOLDER
)  # fmt: skip
_ONLY_FOLDERS = ~(_EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL)
_CREATE_RULESET_VERSION, _RULE_PATH_BENEATH = 1, 1


def version() -> int:
    """Return the version of Landlock (ABI) that the kernel has, 0 for none."""
    try:
        return call("landlock_create_ruleset", 0, 0, _CREATE_RULESET_VERSION)
    except OSError:
        return 0


def handled(abi: int) -> tuple[int, int, int]:
    """Return what is ruled on at a version: rights to files, to the network, and scopes."""
    tables = (_FILE_RIGHTS, _NETWORK_RIGHTS, _SCOPES)
    files, network, scopes = (sum(v for at, v in t.items() if at <= abi) for t in tables)
    return files, network, scopes


def restrict(readable: Sequence[str], writable: Sequence[str]) -> None:
    """Let this process read files below `readable`, and change those below `writable`: no others.

    Raises:
        OSError: the kernel has no Landlock, or a path is not there.
    """
    abi = version()
    if not abi:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), "landlock_create_ruleset")
    files, network, scopes = handled(abi)
    attributes = struct.pack("=QQQ", files, network, scopes)
    size = 8 if abi < 4 else 16 if abi < 6 else 24
    rules = call("landlock_create_ruleset", ctypes.c_char_p(attributes), size, 0)
    try:
        for paths, rights in ((readable, _READ), (writable, _WRITE)):
            for path in paths:
                _allow(rules, path, rights & files)
        call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        call("landlock_restrict_self", rules, 0)
    finally:
        os.close(rules)


def _allow(rules: int, path: str, rights: int) -> None:
    handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(handle).st_mode):
            rights &= ~_ONLY_FOLDERS
        rule = struct.pack("=Qi", rights, handle)
        call("landlock_add_rule", rules, _RULE_PATH_BENEATH, ctypes.c_char_p(rule), 0)
    finally:
        os.close(handle)
