"""`hloc roofline FILE`: the kernels of an optimised module against the peaks of this machine."""

from __future__ import annotations

from argparse import Namespace

from hloc import driver
from hloc.cli.pass_options import checked_pipeline, compile_options, load_plugins
from hloc.cli.talk import Talk
from hloc.errors import printable
from hloc.output_file import write_form
from hloc.pictures.roofline import Roofs, roofline
from hloc.report.exits import Exit, UsageError
from hloc.report.roofline_kernels import measured_kernels, modelled_kernels
from hloc.report.roofline_table import roofline_table
from hloc.report.source_input import need_files, read_module, shown_name
from hloc.report.text import plural


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
    found = modelled_kernels(module, roofs)
    if arguments.run:
        found = measured_kernels(found, talk.warn)
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
