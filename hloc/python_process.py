"""Processes of Python that hloc starts: they import what this one does, and nothing else.

`python -m` and `python -c` look into the current folder first. A file `json.py` beside a module
somebody sent would be run, so the folder is left out, unless this process looks there itself.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

_ROOT = str(Path(__file__).resolve().parents[1])


def python_command(*words: str) -> list[str]:
    """Return the command that runs Python with `words`."""
    return [sys.executable, "-P", *words]


def python_environment(**values: str) -> dict[str, str]:
    """Return the environment for it, with `values`; it names the folders this process looks in."""
    paths = [path for path in sys.path if path and isinstance(path, str)]
    if _ROOT not in paths:
        paths.append(_ROOT)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)), **values}


def ending_of(code: int) -> str:
    """Return how a process came to its end: `crashed: segmentation fault (SIGSEGV)`."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        return f"was ended by signal {-code}"
    words = (signal.strsignal(-code) or name).lower()
    return f"crashed: {words} ({name})"
