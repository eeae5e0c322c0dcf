"""Namespaces of a confined process: users, mounts, processes, network, messages, host name."""

from __future__ import annotations

import os
from contextlib import suppress

from hloc.confinement.kernel import PR_CAPBSET_DROP, call

NAMESPACES = {
    "user": 0x10000000, "mount": 0x00020000, "pid": 0x20000000, "net": 0x40000000,
    "ipc": 0x08000000, "uts": 0x04000000, "cgroup": 0x02000000,
}  # fmt: skip
"""Kinds of namespaces, as `/proc/PID/ns` and `unshare` call them."""

USER = 1000
"""Who a confined process is, within its namespace."""

_NOBODY = 65534
"""Who it is on the machine, if root serves: limits on processes do not count for root."""

_CAPABILITIES = 64


def leave(*kinds: str) -> None:
    """Go into new namespaces; raises OSError where the kernel does not allow it."""
    call("unshare", sum(NAMESPACES[kind] for kind in kinds))


def write_maps(pid: int) -> None:
    """Say who the users of the new user namespace of `pid` are; called from outside of it.

    Root becomes nobody: the process begins as root of its namespace, to make its file tree of
    folders that only root may enter, and then takes the rights of a user that owns nothing.

    Raises:
        OSError: the kernel does not allow it.
    """
    is_root = os.geteuid() == 0
    if not is_root:
        _write(f"/proc/{pid}/setgroups", "deny")
    for kind, own in (("uid", os.geteuid()), ("gid", os.getegid())):
        rows = ["0 0 1", f"{USER} {_NOBODY} 1"] if is_root else [f"{USER} {own} 1"]
        _write(f"/proc/{pid}/{kind}_map", "\n".join(rows))


def _write(path: str, text: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)


def become_user() -> None:
    """Give up all rights that the new user namespace gave, for good."""
    for capability in range(_CAPABILITIES):
        with suppress(OSError):  # the kernel has fewer
            call("prctl", PR_CAPBSET_DROP, capability, 0, 0, 0)
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(USER, USER, USER)
        os.setresuid(USER, USER, USER)
    version, none = 0x20080522, bytes(24)
    call("capset", (version.to_bytes(4, "little") + bytes(4)), none)
