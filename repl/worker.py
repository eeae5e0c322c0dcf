"""The child process that compiles and runs modules, so that a crash ends only the child.

`python -m repl.worker` reads requests from stdin and writes answers to stdout
(`repl/messages.py`). Programs are kept, so that running a state again does not compile it.
"""

from __future__ import annotations

import ctypes
import signal
import sys
import time
from collections import OrderedDict
from functools import partial
from typing import Any

import numpy as np

from hloc import driver
from hloc.child_process import answer_stream
from hloc.dtypes import Array
from hloc.errors import HloError
from hloc.opt.plugin import load_plugin
from hloc.runtime.loading import Runnable
from repl.messages import UNKNOWN, Answer, Request, read_request, write_answer

_KEPT = 6
_MOST_RUNS = 200
_PR_SET_PDEATHSIG = 1


def _end_with_parent() -> None:
    """Ask Linux to kill this process with its parent, even inside a kernel."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> int:
    """Answer requests until stdin ends."""
    _end_with_parent()
    answers = answer_stream()
    programs: OrderedDict[str, Runnable] = OrderedDict()
    write_answer(answers, Answer())  # ready
    while True:
        request = read_request(sys.stdin.buffer)
        if request is None:
            return 0
        write_answer(answers, answer_to(request, programs))


def answer_to(request: Request, programs: OrderedDict[str, Runnable]) -> Answer:
    """Return the answer to a request; `programs` are those that are kept."""
    try:
        if request.by_xla:
            return _answer_by_xla(request)
        return _carried_out(request, programs)
    except HloError as fault:
        return Answer(fault.message, tuple(n for d in fault.diagnostics for n in d.notes))
    except MemoryError:
        return Answer("out of memory")
    except Exception as fault:
        return Answer(f"internal error: {type(fault).__name__}: {fault}")


_loaded: dict[str, float] = {}


def _load_plugins(plugins: tuple[tuple[str, float], ...]) -> None:
    """Load plug-ins that are new or have changed."""
    for path, stamp in plugins:
        if _loaded.get(path) != stamp:
            load_plugin(path)
            _loaded[path] = stamp


def _carried_out(request: Request, programs: OrderedDict[str, Runnable]) -> Answer:
    """Compile the program if it is new, then run it until `request.seconds` are over.

    Without its text, a program that is not kept any more gives `UNKNOWN`: the parent sends it.
    """
    _load_plugins(request.plugins)
    program = programs.get(request.key)
    if program is None:
        if request.text is None:
            return Answer(UNKNOWN)
        module = driver.parse_text(request.text, name=request.key)
        program = driver.load_compiled(driver.generate(module, request.options))
        programs[request.key] = program
        if len(programs) > _KEPT:
            programs.popitem(last=False)
    form = program.stage(request.stage) if request.stage else ""
    if request.inputs is None:
        return Answer(form=form)
    run = program if request.devices == 1 else partial(_run_stacked, program)
    started = time.perf_counter()
    outputs = run(*request.inputs)
    seconds = [time.perf_counter() - started]
    while sum(seconds) < request.seconds and len(seconds) < _MOST_RUNS:
        started = time.perf_counter()
        run(*request.inputs)
        seconds.append(time.perf_counter() - started)
    return Answer("", (), tuple(outputs), tuple(seconds), form)


def _run_stacked(program: Any, *arrays: Array) -> list[Array]:
    """Run on several devices, whose arrays are stacked along a first dimension."""
    results = program.run_devices([list(array) for array in arrays])
    return [np.stack(parts) for parts in results]


def _answer_by_xla(request: Request) -> Answer:
    from hloc.jax.xla_program import run_by_xla

    assert request.text is not None
    assert request.inputs is not None
    outputs, seconds = run_by_xla(request.text, request.inputs)
    return Answer(outputs=outputs, seconds=seconds)


if __name__ == "__main__":
    sys.exit(main())
