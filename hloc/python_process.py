"""Python processes that hloc starts: they have the import path of this process, no more.

`python -m` and `python -c` search the current folder first. A file `json.py` next to a module
from somebody else would run, so the folder is left out, unless this process searches it too.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

_ROOT = str(Path(__file__).resolve().parents[1])


def python_command(*words: str) -> list[str]:
    """Return the command that runs Python with `words`."""
    return [sys.executable, "-P", *words]


def python_environment(**values: str) -> dict[str, str]:
    """Return the environment for it, with `values` and the import path of this process."""
    paths = [path for path in sys.path if path and isinstance(path, str)]
    if _ROOT not in paths:
        paths.append(_ROOT)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)), **values}


def ending_of(code: int) -> str:
    """Return how a process ended: `crashed: segmentation fault (SIGSEGV)`."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        return f"was ended by signal {-code}"
    words = (signal.strsignal(-code) or name).lower()
    return f"crashed: {words} ({name})"


def limit_this_process(memory_bytes: int, file_bytes: int, cpu_seconds: int = 0) -> None:
    """Set limits for this process and its children, if the system has them.

    Args:
        memory_bytes: limit on address space.
        file_bytes: limit on the size of each file that it writes.
        cpu_seconds: limit on processor time, 0 for none.
    """
    try:
        import resource
    except ImportError:  # Windows: only the wall time is bounded, by the parent
        return
    limits = [
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_FSIZE, file_bytes),
        (resource.RLIMIT_CORE, 0),
    ]
    if cpu_seconds:
        limits.append((resource.RLIMIT_CPU, cpu_seconds))
    for which, most in limits:
        with suppress(ValueError, OSError):
            resource.setrlimit(which, (most, most))


def end_with_children(process: subprocess.Popen[bytes]) -> None:
    """End a process that leads its own process group, and all its children."""
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()
