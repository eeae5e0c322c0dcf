"""`hloc repl`: replaces the process by hlo-repl, without importing it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from hloc.python_process import python_command, python_environment


def start_repl(words: Sequence[str]) -> NoReturn:
    """Replace this process by hlo-repl."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, python_command("-m", "repl", *words), python_environment())
