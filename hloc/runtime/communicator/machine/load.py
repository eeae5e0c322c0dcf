"""The machine code of the local engine: translated, compiled once per machine, loaded."""

from __future__ import annotations

import os
import signal
import sys
from functools import cache
from pathlib import Path

from hloc.codegen.llvm.target import host_target
from hloc.runtime.communicator.machine.waiting import NEEDED, waiting_text
from hloc.runtime.communicator.structures import STRUCTURES
from hloc.runtime.translated_code import Machine, load_translated

SOURCES = ("moves", "rendezvous", "transfers", "entry", "threads")

_WAITING = {"sleep": 2, "wake": 2, "pause": 0}


@cache
def machine() -> Machine:
    """Return the functions, loaded once in the process."""
    result = load_translated(
        "\n".join(Path(__file__).with_name(f"{name}.py").read_text() for name in SOURCES),
        STRUCTURES,
        lists={"Address": "void*"},
        prelude=waiting_text(host_target(), is_linux=sys.platform == "linux"),
        prelude_functions=_WAITING,
        also=NEEDED,
    )
    result.function("set_up", 1)(int(signal.SIG_SETMASK))
    os.register_at_fork(after_in_child=result.function("forget", 0))
    return result
