"""The steps by which a process confines itself; none prevents a later one."""

from __future__ import annotations

import os
import resource
import signal
import socket
from collections.abc import Sequence

from hloc.confinement import file_tree, landlock, namespaces, seccomp
from hloc.confinement.kernel import PR_SET_PDEATHSIG, call
from hloc.confinement.limits import Limits

_OPEN_FILES = 64
_LESS_URGENT = 5
"""Added niceness: the server must answer while confined processes work."""

_NOT_USED = (resource.RLIMIT_CORE, resource.RLIMIT_MEMLOCK, resource.RLIMIT_MSGQUEUE)


def confine(place: str, readable: Sequence[str], limits: Limits) -> None:
    """Confine this process, which is in new namespaces already and has all rights in them.

    Args:
        place: an empty folder for its file tree.
        readable: folders that it may read.
        limits: its resource limits.

    Raises:
        OSError: the kernel refuses a step.
    """
    _die_first()
    file_tree.enter(place, readable, limits.file_bytes)
    namespaces.become_user()
    call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # a change of user has cleared it
    landlock.restrict(readable, [file_tree.OWN_FOLDER])
    _set_limits(limits)
    seccomp.install(threads=limits.threads > 0)


def _die_first() -> None:
    """Make the kernel kill this process first when memory runs out."""
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")


def _set_limits(limits: Limits) -> None:
    os.nice(_LESS_URGENT)
    rows = [
        (resource.RLIMIT_AS, limits.memory_bytes),
        (resource.RLIMIT_CPU, limits.cpu_seconds),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_NOFILE, _OPEN_FILES),
        (resource.RLIMIT_NPROC, 1 + limits.threads),
        *((which, 0) for which in _NOT_USED),
    ]
    for which, most in rows:
        resource.setrlimit(which, (most, most))


def check() -> None:
    """Raise RuntimeError if this process can do what a confined one must not."""
    for attempt in (lambda: os.listdir("/etc"), os.fork, socket.socket):
        try:
            attempt()
        except OSError:
            continue
        raise RuntimeError("not confined")
