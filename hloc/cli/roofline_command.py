"""`hloc roofline FILE`: the kernels of an optimised module against the peaks of this machine."""

from __future__ import annotations

import time
from argparse import Namespace
from dataclasses import replace

from hloc import driver
from hloc.analysis.call_graph import control_flow_computations
from hloc.analysis.cost import costs_of, instruction_cost
from hloc.analysis.extract import extract
from hloc.analysis.fingerprints import Fingerprints
from hloc.analysis.kernel_count import is_kernel
from hloc.cli.pass_options import checked_pipeline, compile_options, load_plugins
from hloc.cli.roofline_table import roofline_table
from hloc.cli.talk import Talk
from hloc.errors import HloError, printable
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import reachable_computations
from hloc.output_file import write_form
from hloc.pictures.roofline import Kernel, Roofs, roofline
from hloc.report.exits import Exit, UsageError
from hloc.report.inputs import random_inputs
from hloc.report.run_report import run_executable
from hloc.report.source_input import need_files, read_module, shown_name
from hloc.report.text import plural

_MOST_MEASURED = 48
_MOST_SECONDS = 60.0


def roofline_file(arguments: Namespace, talk: Talk) -> int:
    """`hloc roofline FILE [-O2] [--run] [-o OUT.svg]`: a table, and a chart if a file is named."""
    from hloc.runtime.machine_peaks import measure_peaks

    (file,) = need_files(arguments.files, exactly=1)
    path = arguments.output_file or ""
    if path and not path.lower().endswith(".svg"):
        raise UsageError("expected -o with a file that ends in .svg")
    load_plugins(arguments)
    options = compile_options(arguments)
    checked_pipeline(options)
    module = read_module(file)
    driver.optimise(module, options)
    peaks = measure_peaks()
    roofs = Roofs(peaks.flops, peaks.memories)
    found = _kernels(module, roofs)
    if arguments.run:
        found = _measured(found, talk)
    kernels = [kernel for _, kernel in found]
    talk.page("".join(f"{text}\n" for text in roofline_table(roofs, kernels)))
    if path:
        write_form(path, roofline(f"{module.name}: roofline of one thread", roofs, kernels))
    memories = ", ".join(f"{name} {rate / 1e9:.0f} GB/s" for name, rate in roofs.memories)
    talk.say(
        f"{shown_name(file)}: {plural(len(kernels), 'kernel')} under {roofs.flops / 1e9:.0f} "
        f"GFLOP/s, {memories}" + (f", in {printable(path)}" if path else "")
    )
    return Exit.OK


def _kernels(module: Module, roofs: Roofs) -> list[tuple[Instruction, Kernel]]:
    """Return the kernels with the times of the cost model, the longest first."""
    costs = costs_of(reachable_computations(module.entry))
    found = []
    for computation in control_flow_computations(module):
        for inst in filter(is_kernel, computation.instructions):
            cost = instruction_cost(inst, costs.__getitem__)
            flops = cost.flops + cost.transcendentals
            seconds = roofs.seconds(flops, cost.bytes)
            kernel = Kernel(inst.name, inst.opcode.name, flops, cost.bytes, seconds, False)
            found.append((inst, kernel))
    found.sort(key=lambda pair: -pair[1].seconds)
    return found


def _measured(
    found: list[tuple[Instruction, Kernel]], talk: Talk
) -> list[tuple[Instruction, Kernel]]:
    """Return the kernels with their times here, each run by itself; equal ones are run once."""
    fingerprints = Fingerprints()
    if found:
        fingerprints.add(found[0][0].computation.module)
    known: dict[int, float | None] = {}
    result = []
    stop = time.perf_counter() + _MOST_SECONDS
    for inst, kernel in found:
        number = fingerprints.local[inst]
        may_run = len(known) < _MOST_MEASURED and time.perf_counter() < stop
        if number not in known and may_run:
            known[number] = _seconds(inst, talk)
        seconds = known.get(number)
        result.append(
            (inst, kernel if seconds is None else replace(kernel, seconds=seconds, measured=True))
        )
    return result


def _seconds(inst: Instruction, talk: Talk) -> float | None:
    """Return the time of one run of a module that is `inst` alone; None if it cannot run so."""
    try:
        module = extract(inst, 0)
        inputs = random_inputs(module, 0)
        _, timing = run_executable(driver.compile_as_it_stands(module), inputs, None)
    except HloError as fault:
        talk.warn(f"{inst.name} is not measured: {fault.message}")
        return None
    return timing.seconds[0]
