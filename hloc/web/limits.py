"""What `hloc web` takes in, and how much time and memory a module may take."""

from __future__ import annotations

TEXT_BYTES = 8 << 20
"""Of a request, and of the text of a module that the page edits."""

ANSWER_BYTES = 256 << 10
"""Of an answer to the exercise of a lesson."""

ARRAY_BYTES = 8 << 20
"""Of a file of inputs that the page sends, and of the results that it can save."""

START_SECONDS = 60.0
"""A cold start reads NumPy and LLVM from the disk; it does not count against a question."""

CHECK_SECONDS, WORK_SECONDS = 10.0, 60.0
"""For the answer to a check while typing, and to any other question."""

PART_SECONDS = 0.5
"""After which the page is told of the states that are there, while passes still run."""

WALK_SECONDS = 45.0
"""Of processor time for all passes of a pipeline: a new process can make them within an answer."""

MEMORY_BYTES = 4 << 30
"""Of address space, of each process that works on modules."""

FILE_BYTES = 64 << 20
"""Of each file that such a process writes."""

KEPT_WALKS, KEPT_STATES, KEPT_PAGES = 4, 24, 32
"""Modules with their pipelines in a child, states inside passes of each, drawings in the server."""

MOST_DIAGNOSTICS, MOST_REWRITES, MOST_KERNELS = 50, 2000, 500
"""That one answer lists."""

SHOWN_BYTES = 2 << 20
"""Of LLVM IR, assembly or HLO of one state; the page says how much more there is."""

GRAPH_INSTRUCTIONS = 50_000
"""Of a module that is drawn: that takes about 0.15 ms of processor time an instruction."""
