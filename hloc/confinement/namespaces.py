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
"""User and group id of a confined process in its namespace."""

_NOBODY = 65534
"""Its id on the machine if the server runs as root: limits on processes do not apply to root."""

_CAPABILITIES = 64


def enter_new(*kinds: str) -> None:
    """Move this process into new namespaces; raises OSError if the kernel refuses."""
    call("unshare", sum(NAMESPACES[kind] for kind in kinds))


def write_maps(pid: int) -> None:
    """Map the user and group ids of the new user namespace of `pid`; called from outside of it.

    If the server runs as root, the process starts as root of its namespace, since only root may
    enter some of the folders of its file tree, and then becomes a user that owns nothing.

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
    """Drop all capabilities in the new user namespace for good."""
    for capability in range(_CAPABILITIES):
        with suppress(OSError):  # the kernel has fewer
            call("prctl", PR_CAPBSET_DROP, capability, 0, 0, 0)
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(USER, USER, USER)
        os.setresuid(USER, USER, USER)
    version, none = 0x20080522, bytes(24)
    call("capset", (version.to_bytes(4, "little") + bytes(4)), none)
