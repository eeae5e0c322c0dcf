"""Runs modules with every array against inaccessible pages; a fault ends this process.

    python tests/guarded_run.py FILE...

Prints each case before it runs. Results must equal those of an ordinary run, bit for bit.
"""

import sys
from pathlib import Path
from threading import Timer

import numpy as np

from hloc.driver import compile_module, optimise, parse_text
from hloc.errors import HloError
from hloc.ir.clone import clone_module
from hloc.ir.module import Module
from hloc.options import CompileOptions
from hloc.runtime.arena import stop_all
from hloc.runtime.guarded import compile_guarded, run_guarded
from tests.inputs import inputs_for

MAX_BYTES = 1 << 28
"""Modules with larger arrays are left out."""

MAX_SECONDS = 10
"""Modules that run longer, or for ever, are left out."""


def main(files: list[str]) -> int:
    """Run all cases at -O0 and -O2; return 1 if results differ."""
    faults = 0
    for name in files:
        try:
            module = parse_text(Path(name).read_text(), name=name)
            arguments = inputs_for(module)
        except (HloError, AssertionError):
            continue
        for level in (0, 2):
            options = CompileOptions(opt_level=level, fill_constants="zeros")
            faults += _run(name, module, options, arguments)
    return 1 if faults else 0


def _run(name: str, module: Module, options: CompileOptions, arguments: list[np.ndarray]) -> bool:
    """Return True if a guarded run gives other results than an ordinary one."""
    timer = Timer(MAX_SECONDS, stop_all)
    try:
        executable = compile_module(module, options)
        timer.start()
        expected = executable(*arguments)
    except (HloError, KeyboardInterrupt):
        return False
    finally:
        timer.cancel()
    for at_end in (True, False):
        print(f"{name} -O{options.opt_level} {'end' if at_end else 'start'}", flush=True)
        copy = clone_module(module)
        optimise(copy, options)
        compiled = compile_guarded(copy, options, at_end=at_end)
        if compiled.boundary.parameters or compiled.boundary.results:
            return False
        if compiled.buffers.arena_bytes > MAX_BYTES or compiled.plan.host_functions:
            return False
        found = run_guarded(compiled, arguments, at_end=at_end)
        for x, y in zip(found, expected, strict=True):
            if x.tobytes() != np.ascontiguousarray(y).tobytes():
                print(f"{name}: results differ", flush=True)
                return True
    return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
