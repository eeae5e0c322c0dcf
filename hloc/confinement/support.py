"""Errors for a machine that cannot confine processes: what is missing, and what to do."""

from __future__ import annotations

import sys

from hloc.confinement.kernel import MACHINES, machine
from hloc.errors import HloError, printable

_NAMESPACES = (
    "namespaces of its own for each process",
    (
        "Ubuntu: sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0",
        "Debian: sudo sysctl kernel.unprivileged_userns_clone=1",
        "in a container: docker run --security-opt seccomp=unconfined --security-opt "
        "apparmor=unconfined",
    ),
)
_LANDLOCK = (
    "Landlock",
    ("it is in Linux 5.13 and newer, where landlock is in /sys/kernel/security/lsm",),
)
_SECCOMP = ("a filter of system calls (seccomp)", ("it is in Linux 3.17 and newer",))
_OF_CALL = {
    "landlock_create_ruleset": _LANDLOCK,
    "landlock_add_rule": _LANDLOCK,
    "landlock_restrict_self": _LANDLOCK,
    "seccomp": _SECCOMP,
    "mount_setattr": ("mounts that are read only with all below", ("it is in Linux 5.12",)),
}
"""Feature and advice by system call; all other calls need namespaces."""


def check_machine() -> None:
    """Raise HloError where processes cannot be confined on any kernel."""
    if sys.platform != "linux" or machine() not in MACHINES:
        raise HloError(
            f"processes cannot be confined on {sys.platform}, {machine()}",
            notes=(f"it takes Linux on {' or '.join(MACHINES)}; a virtual machine will do",),
        )


def lack(call: str, reason: str) -> HloError:
    """Return the error for a step of confinement that failed.

    Args:
        call: the system call, or the path of the file that it could not use.
        reason: the system's error message.
    """
    if call.startswith("/") and not call.startswith("/proc/"):
        return HloError(
            f"a confined process cannot use {printable(call)}: {reason}",
            notes=("install Python and hloc where every user may read them",),
        )
    what, advice = _OF_CALL.get(call, _NAMESPACES)
    return HloError(f"this system does not give {what} ({call}: {reason})", notes=advice)
