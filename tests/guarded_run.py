"""Runs modules with every array against inaccessible pages; a fault ends the process.

    python tests/guarded_run.py FILE...                 in this process, -O0 and -O2
    python tests/guarded_run.py --batches FILE...       in children, goes on after faults, counts

Prints each case before it runs. Results must be the same at both ends of a page, bit for bit.
"""

import argparse
import subprocess
import sys
from collections import Counter
from pathlib import Path
from threading import Timer

import numpy as np

from hloc.driver import compile_module, optimise, parse_text
from hloc.errors import HloError
from hloc.ir.clone import clone_module
from hloc.ir.module import Module
from hloc.options import CompileOptions
from hloc.runtime.arena import stop_all
from hloc.shapes import ArrayShape, leaves
from tests.guard_pages import compile_guarded, run_guarded
from tests.inputs import inputs_for

MAX_BYTES = 1 << 27
"""Modules whose arguments and results, or temporaries, are larger are left out."""

MAX_SECONDS = 10
"""Modules that run longer, or for ever, are left out."""

FINISHED = "finished"
"""The last line of a process that ran all its files."""

BATCH, BATCH_SECONDS = 200, 600
"""Files per child process, and how long one may take."""


def main(arguments: list[str]) -> int:
    """Run all cases; return 1 if results differ (a fault ends the process, or a child)."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--batches", action="store_true", help="in child processes")
    parser.add_argument("--levels", default="0,2", help="optimisation levels")
    parser.add_argument("--ends", default="end,start", help="ends of arrays that are guarded")
    parser.add_argument("files", nargs="+")
    options = parser.parse_args(arguments)
    if options.batches:
        return run_batches(options.files, ["--levels", options.levels, "--ends", options.ends])
    levels = [int(level) for level in options.levels.split(",")]
    ends = options.ends.split(",")
    faults = [run_file(name, levels, ends) for name in options.files]
    print(FINISHED)
    return 1 if any(faults) else 0


def run_file(name: str, levels: list[int], ends: list[str]) -> bool:
    """Run one file at all levels and say how it went; return True if results differ."""
    print(f"file {name}", flush=True)
    try:
        module = parse_text(Path(name).read_text(), name=name)
        size = _boundary_bytes(module)
        if size < 0 or size > MAX_BYTES:
            print("left out: too large" if size > 0 else "left out: unbounded", flush=True)
            return False
        inputs = inputs_for(module)
    except (HloError, AssertionError):
        print("left out: not read", flush=True)
        return False
    faults = False
    for level in levels:
        options = CompileOptions(opt_level=level, fill_constants="zeros")
        outcome = _run(name, module, options, ends, inputs)
        print(outcome, flush=True)
        faults |= outcome == "differs"
    return faults


def _boundary_bytes(module: Module) -> int:
    """Return the bytes of all arguments and results, less than 0 if a size is unbounded."""
    shapes = [*(parameter.shape for parameter in module.entry.parameters), module.entry.root.shape]
    found = [leaf for shape in shapes for _, leaf in leaves(shape)]
    arrays = [leaf for leaf in found if isinstance(leaf, ArrayShape)]
    if any(size < 0 for leaf in arrays for size in leaf.dims):
        return -1
    return sum(leaf.size_bytes for leaf in arrays)


def _run(
    name: str, module: Module, options: CompileOptions, ends: list[str], arguments: list[np.ndarray]
) -> str:
    """Return how the guarded runs went: `ok`, `differs`, or why there were none."""
    results = []
    try:
        if not _ends_in_time(module, options, arguments):
            return "left out: too long"
        optimised = clone_module(module)
        optimise(optimised, options)
        for end in ends:
            compiled = compile_guarded(clone_module(optimised), options, at_end=end == "end")
            if compiled.boundary.parameters or compiled.boundary.results:
                return "left out: dynamic sizes at the boundary"
            if compiled.buffers.arena_bytes > MAX_BYTES:
                return "left out: too large"
            if compiled.plan.host_functions:
                return "left out: calls the host"
            print(f"{name} -O{options.opt_level} {end}", flush=True)
            results.append(run_guarded(compiled, arguments, at_end=end == "end"))
    except HloError:
        return "left out: does not run"
    same = all(
        x.tobytes() == y.tobytes()
        for other in results[1:]
        for x, y in zip(results[0], other, strict=True)
    )
    return "ok" if same else "differs"


def _ends_in_time(module: Module, options: CompileOptions, arguments: list[np.ndarray]) -> bool:
    """True if an ordinary run of a module with loops ends."""
    if not any(inst.is_a("while") for c in module.computations for inst in c.instructions):
        return True
    timer = Timer(MAX_SECONDS, stop_all)
    try:
        executable = compile_module(clone_module(module), options)
        timer.start()
        executable(*arguments)
    except KeyboardInterrupt:
        return False
    finally:
        timer.cancel()
    return True


# ---------------------------------------------------------------- batches


def run_batches(files: list[str], options: list[str]) -> int:
    """Run files in children and print how many went how; return 1 if there was a fault."""
    counts: Counter[str] = Counter()
    bad: list[str] = []
    rest = list(files)
    while rest:
        done = _child(rest[:BATCH], options)
        started = 0
        last = ""
        for line in done[1]:
            if line.startswith("file "):
                started, last = started + 1, line[5:]
            elif line in ("ok", "differs") or line.startswith("left out"):
                counts[line] += 1
                bad += [f"{last}: differs"] * (line == "differs")
        if FINISHED in done[1]:
            rest = rest[BATCH:]
        else:  # the last file that was begun ended the child
            counts["fault"] += 1
            bad.append(f"{last}: exit {done[0]} after {done[1][-1:]}")
            print(bad[-1], flush=True)
            rest = rest[max(1, started) :]
        print(f"{len(rest)} files to go: {dict(counts)}", flush=True)
    print("\n".join([*bad, *(f"{count} {what}" for what, count in sorted(counts.items()))]))
    return 1 if bad else 0


def _child(files: list[str], options: list[str]) -> tuple[int, list[str]]:
    """Run one child process; return its exit status (negative beyond its time) and its lines."""
    command = [sys.executable, __file__, *options, *files]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        timer = Timer(BATCH_SECONDS, process.kill)
        timer.start()
        assert process.stdout is not None
        lines = process.stdout.read().splitlines()
        timer.cancel()
    return process.returncode, lines


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
