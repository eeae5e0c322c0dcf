"""Limits of `hloc web`: sizes of requests, and the time and memory that a module may take."""

from __future__ import annotations

TEXT_BYTES = 8 << 20
"""Largest request, and largest text of a module that the page edits."""

ANSWER_BYTES = 256 << 10
"""Largest answer to the exercise of a lesson."""

ARRAY_BYTES = 8 << 20
"""Largest file of inputs that the page sends, and of results that it can save."""

START_SECONDS = 60.0
"""Limit for a cold start, which reads NumPy and LLVM from disk; not part of a question's time."""

CHECK_SECONDS, WORK_SECONDS = 10.0, 60.0
"""Time limits for a check while the user types, and for any other question."""

PART_SECONDS = 0.5
"""Interval at which the page gets the states so far while passes still run."""

WALK_SECONDS = 45.0
"""Processor time of a pipeline: a new process can run it again within `WORK_SECONDS`."""

MEMORY_BYTES = 4 << 30
"""Address space of each process that works on modules."""

FILE_BYTES = 64 << 20
"""Largest file that such a process writes."""

KEPT_WALKS, KEPT_STATES, KEPT_PAGES = 4, 24, 32
"""Cached modules per child, states inside passes per module, and drawings in the server."""

MOST_DIAGNOSTICS, MOST_REWRITES, MOST_KERNELS = 50, 2000, 500
"""Most of them that one answer lists."""

SHOWN_BYTES = 2 << 20
"""Most HLO, LLVM IR or assembly of a state that is shown; the page tells the size of the rest."""

GRAPH_INSTRUCTIONS = 50_000
"""Largest module that is drawn, which takes about 0.15 ms of processor time per instruction."""
