"""What a process does to shut itself in, in an order that each step leaves possible."""

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
"""Than the server, which must answer while they work."""

_NOT_USED = (resource.RLIMIT_CORE, resource.RLIMIT_MEMLOCK, resource.RLIMIT_MSGQUEUE)


def confine(place: str, readable: Sequence[str], limits: Limits) -> None:
    """Shut this process in; it is in namespaces of its own already, with rights over them.

    Args:
        place: an empty folder, where its file tree is made.
        readable: folders that it may read.
        limits: what it may take.

    Raises:
        OSError: the kernel does not give what is asked.
    """
    _die_first()
    file_tree.enter(place, readable, limits.file_bytes)
    namespaces.become_user()
    call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # a change of user has cleared it
    landlock.restrict(readable, [file_tree.OWN_FOLDER])
    _set_limits(limits)
    seccomp.install(threads=limits.threads > 0)


def _die_first() -> None:
    """Let the kernel end this process before others where memory runs out."""
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
    """Raise RuntimeError if this process can do what confined ones must not."""
    for attempt in (lambda: os.listdir("/etc"), os.fork, socket.socket):
        try:
            attempt()
        except OSError:
            continue
        raise RuntimeError("not confined")
