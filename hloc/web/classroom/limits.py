"""Limits of a classroom: sizes of requests, and the resources of each student."""

from __future__ import annotations

import os

from hloc.confinement.forked import Patience
from hloc.confinement.limits import Limits

TEXT_BYTES = 2 << 20
"""Largest text of a module; a request may be twice as large."""

SESSION_SECONDS, PROCESS_SECONDS = 45 * 60.0, 3 * 60.0
"""Idle time after which a session ends, and after which the processes of a session end."""

NAME_LETTERS = 40

MOST_ASKED, MOST_ASKED_TOGETHER = 8, 160
"""Most requests in progress, of one student and of all."""

WAIT_SECONDS = 60.0
"""Most time that a question waits for others."""

REQUEST_SECONDS = 15.0
"""Time limit for a request to arrive, and for an idle connection."""

CONNECTIONS, CONNECTIONS_OF_ONE = 512, 256
"""Most open connections, of all and of one address, which a whole school may share."""

KEPT_BYTES = 384 << 20
"""A process that uses more memory after an answer is ended; the next question starts a new one."""

WORK_LIMITS = Limits(memory_bytes=2 << 30, cpu_seconds=600, file_bytes=16 << 20, threads=16)
ANSWER_LIMITS = Limits(memory_bytes=2 << 30, cpu_seconds=30, file_bytes=16 << 20)
"""Limits of a process that works on modules, and of one that runs a student's Python, which has no
threads and so uses at most one processor."""


def _at_work() -> int:
    try:
        memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not Linux, where no class is served
        memory_bytes = 0
    return max(4, min(32, memory_bytes // WORK_LIMITS.memory_bytes))


AT_WORK = _at_work()
"""Processes that may work at the same time: as many as fit in memory if each uses all it may. The
system divides the processors among them."""

CHECKING = 4
"""Further processes, which check texts while students type."""

_ANSWER_BYTES = 8 << 20
CHECK_PATIENCE = Patience(seconds=20, cpu_seconds=5, answer_bytes=_ANSWER_BYTES)
WORK_PATIENCE = Patience(seconds=60, cpu_seconds=20, answer_bytes=_ANSWER_BYTES)
ANSWER_PATIENCE = Patience(seconds=60, cpu_seconds=20, answer_bytes=1 << 20)
