"""A second run of the same file: its program is in the cache, and the text is not parsed.

Everything that the first run reported about the module is stored with the program
(`report/run_facts.py`).
"""

from __future__ import annotations

import os
from argparse import Namespace

from hloc import driver
from hloc.cli.pass_options import compile_options
from hloc.cli.run_outcome import Outcome, runs_to_time, tell_outcome
from hloc.cli.talk import Talk
from hloc.errors import HloError, printable
from hloc.input_files import read_file
from hloc.report.exits import Exit
from hloc.report.inputs import load_arrays, random_arrays
from hloc.report.repro_file import ENDING
from hloc.report.run_facts import RunFacts, shape_texts
from hloc.report.run_report import run_executable
from hloc.runtime.communicator.mpi.launch import launched_processes


def run_kept(arguments: Namespace, talk: Talk) -> int | None:
    """Run the program of an earlier run of the same text with the same options.

    Returns:
        The exit code; None if there is no such program, or the options ask for more than its
        results.

    Raises:
        HloError: the inputs cannot be read, or the program fails.
    """
    a = arguments
    if not _is_plain(a):
        return None
    options = compile_options(a)
    (name,) = a.files
    try:
        text = read_file(name).decode("utf-8", "surrogateescape")
    except HloError:
        return None  # the normal path reports it
    found = driver.kept_program(text, options)
    if found is None:
        return None
    program, note = found
    facts = RunFacts.from_text(note)
    shapes = [leaf.shape for leaf in program.manifest.parameters][: len(facts.parameters)]
    results = program.manifest.outputs[: len(facts.results)]
    if (shape_texts(shapes), shape_texts(results)) != (facts.parameters, facts.results):
        return None  # arrays of dynamic sizes
    talk.say(f"{printable(name)}: {facts.headline}")
    if a.inputs:
        inputs = load_arrays(a.inputs, "arg", shapes, facts.names)
    else:
        if a.random is None and shapes:
            talk.say("no inputs given: random, seed 0")
        inputs = random_arrays(shapes, a.random or 0, facts.limits)
    outputs, timing = run_executable(program, inputs, runs_to_time(a, talk))
    tell_outcome(Outcome(outputs, timing, results, facts.flops, program.threads), a, talk)
    return Exit.OK


def _is_plain(arguments: Namespace) -> bool:
    """True if one text runs on one device of this process, without a comparison."""
    a = arguments
    others = (a.input, a.compare_with, a.devices, a.mesh, a.per_device, a.engine, a.repro, a.plugin)
    if not only_runs(a) or any(others) or a.backend != "native" or (a.inputs and a.random):
        return False
    if a.format == "json" or a.resume_from:
        return False
    if len(a.files) != 1 or a.files[0] == "-" or a.files[0].endswith(ENDING):
        return False
    return launched_processes(os.environ) <= 1


def only_runs(arguments: Namespace) -> bool:
    """True if only the results are wanted, which a kept program gives as well."""
    a = arguments
    makes = (a.emit, a.output_file, a.memory is not None, a.compile_only, a.shared, a.compare_each)
    reports = (a.profile, a.autotune, watches_passes(a))
    return a.run and not any(makes) and not any(reports)


def watches_passes(arguments: Namespace) -> bool:
    """True if the options ask for a report that needs the passes to run."""
    a = arguments
    asked = (a.remarks, a.print_changed, a.print_after, a.dump_dir, a.time_passes)
    checked = (a.verify_each, a.check_each)
    limited = a.opt_bisect_limit is not None or a.trace_rewrites is not None
    return limited or any(asked) or any(checked)
