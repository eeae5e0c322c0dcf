"""Exit codes, and the faults that lie neither in the module nor in hloc."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from enum import IntEnum
from typing import NoReturn


class Exit(IntEnum):
    """What the process returns; the list is closed and documented in `hloc --help`."""

    OK = 0
    FAULT = 1
    USAGE = 2
    UNSUPPORTED = 3
    RUN_FAILED = 4
    INTERNAL = 70
    INTERRUPTED = 130
    BROKEN_PIPE = 141


EXIT_CODES = (
    (Exit.OK, "all went well"),
    (Exit.FAULT, "errors in the input, or a comparison or check that found a difference"),
    (Exit.USAGE, "wrong usage"),
    (Exit.UNSUPPORTED, "the module is legal, but the target cannot run it"),
    (Exit.RUN_FAILED, "the compiled program failed or hit a limit"),
    (Exit.INTERNAL, "a fault of hloc itself"),
    (Exit.INTERRUPTED, "stopped by Ctrl-C"),
    (Exit.BROKEN_PIPE, "the reader of stdout has gone (128 + SIGPIPE)"),
)


def leave_interrupted() -> NoReturn:
    """End the process after a Ctrl-C that a long kernel does not notice."""
    with suppress(OSError):
        sys.stdout.flush()
    sys.stderr.write("hloc: interrupted\n")
    sys.stderr.flush()
    os._exit(Exit.INTERRUPTED)


class UsageError(Exception):
    """A wrong command line."""


class OutputFault(Exception):
    """stdout cannot be written; the message says why."""


class RunFailed(Exception):
    """The compiled program failed while it ran, or ran into a limit."""
