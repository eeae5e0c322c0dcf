"""The process of a command: what is set before packages are loaded, and how it ends."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from hloc.report.exits import Exit

_IDLE_THREADS = "OPENBLAS_THREAD_TIMEOUT"
_LOG2_CYCLES = "16"
_GO_ON_AFTER = frozenset(
    ("cProfile", "profile", "pdb", "trace", "mpi4py", "hloc.runtime.gpu.cuda_driver")
)
"""Modules after which something is done when Python itself, or the C library, ends: results are
shown, MPI is finalized, profilers of GPUs write their files."""


def run_process(main: Callable[[], int]) -> NoReturn:
    """Make this process the command `main`, and end with the code it returns."""
    let_idle_threads_sleep()
    end_process(main())


def let_idle_threads_sleep() -> None:
    """Let the threads of NumPy's OpenBLAS wait for work without keeping cores busy.

    They wait in a loop for 2^26 cycles before they sleep. Loading NumPy starts them, so that each
    command took up to 100 ms more of processor time on two cores. To be called before NumPy loads.
    """
    os.environ.setdefault(_IDLE_THREADS, _LOG2_CYCLES)


def end_process(code: int) -> NoReturn:
    """End as `sys.exit(code)` does, but without deleting all objects first, 20 to 40 ms.

    Threads are waited for, exit functions run and streams are flushed. Under a debugger, a profiler
    or MPI, which go on after the program, it is `sys.exit`, and with plug-ins, whose open files
    Python closes.
    """
    watched = sys.gettrace() or sys.getprofile() or not _GO_ON_AFTER.isdisjoint(sys.modules)
    watched = watched or any(name.startswith("hloc_plugin_") for name in sys.modules)
    if watched or sys.flags.interactive or sys.flags.inspect:
        sys.exit(code)
    try:
        if "threading" in sys.modules:
            sys.modules["threading"]._shutdown()
        atexit._run_exitfuncs()
    except KeyboardInterrupt:
        code = Exit.INTERRUPTED
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
