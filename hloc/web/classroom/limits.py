"""What a classroom takes in, and what each student may take."""

from __future__ import annotations

import os

from hloc.confinement.forked import Patience
from hloc.confinement.limits import Limits

TEXT_BYTES = 2 << 20
"""Of the text of a module; a request may have twice as many."""

SESSION_SECONDS, PROCESS_SECONDS = 45 * 60.0, 3 * 60.0
"""Of idleness, after which a session ends, and after which the processes of one do."""

NAME_LETTERS = 40

MOST_ASKED, MOST_ASKED_TOGETHER = 8, 160
"""Requests that are being answered, of one student and of all."""

WAIT_SECONDS = 60.0
"""That a question waits for others."""

REQUEST_SECONDS = 15.0
"""In which a request has to arrive, and an idle connection is closed."""

CONNECTIONS, CONNECTIONS_OF_ONE = 512, 256
"""That are open at once: of all, and of one address, behind which a whole school may be."""

KEPT_BYTES = 384 << 20
"""A process that occupies more after an answer is ended; its next question starts another."""

WORK_LIMITS = Limits(memory_bytes=2 << 30, cpu_seconds=600, file_bytes=16 << 20, threads=16)
ANSWER_LIMITS = Limits(memory_bytes=2 << 30, cpu_seconds=30, file_bytes=16 << 20)
"""Of a process that works on modules, and of one that runs a student's Python: that has no threads,
so it takes no more of the processors than one."""


def _at_work() -> int:
    try:
        memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not Linux, where no class is served
        memory_bytes = 0
    return max(4, min(32, memory_bytes // WORK_LIMITS.memory_bytes))


AT_WORK = _at_work()
"""Processes that work at the same time, as far as memory lasts if each takes all it may. The
system divides the processors among them, so that none holds up the others."""

CHECKING = 4
"""Processes that check texts while students type, beside those."""

_ANSWER_BYTES = 8 << 20
CHECK_PATIENCE = Patience(seconds=20, cpu_seconds=5, answer_bytes=_ANSWER_BYTES)
WORK_PATIENCE = Patience(seconds=60, cpu_seconds=20, answer_bytes=_ANSWER_BYTES)
ANSWER_PATIENCE = Patience(seconds=60, cpu_seconds=20, answer_bytes=1 << 20)
