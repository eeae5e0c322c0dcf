"""The output of `hloc run` for one run: the line with its time, and the results."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from hloc.cli.talk import Talk
from hloc.dtypes import Array
from hloc.lazy_dataclass import dataclass
from hloc.report.inputs import save_arrays
from hloc.report.run_data import outputs_data, timing_data
from hloc.report.run_report import Timing, output_lines, run_line
from hloc.shapes import ArrayShape


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of a run and its times.

    Attributes:
        shapes: of the outputs.
        flops: operations of a run, 0 if they are not to be shown.
        stacked: indices of the outputs that stack the arrays of devices along a first dimension.
    """

    outputs: Sequence[Array]
    timing: Timing
    shapes: Sequence[ArrayShape]
    flops: int
    threads: int
    devices: int = 1
    stacked: Sequence[int] = ()


def runs_to_time(arguments: Namespace, talk: Talk) -> int | None:
    """Return the number of runs; None runs until the time is known well enough."""
    repeat: int | None = arguments.repeat
    return 1 if repeat is None and talk.quiet else repeat


def tell_outcome(
    outcome: Outcome,
    arguments: Namespace,
    talk: Talk,
    profile: tuple[Sequence[str], object] | None = None,
) -> None:
    """Print the line of the run, its profile, and the results; write them to a file.

    The profile is its lines and its JSON data.
    """
    a, o = arguments, outcome
    line = run_line(o.shapes, o.timing, o.flops, o.threads, o.devices)
    talk.report("run", [line], timing_data(o.timing, o.flops, o.threads, o.devices))
    if profile is not None:
        talk.report("profile", *profile)
    if a.output:
        save_arrays(a.output, "out", o.outputs, o.shapes)
    if a.print_output is None and (a.output or a.emit):
        return
    if talk.data is not None:
        talk.data["outputs"] = outputs_data(o.outputs, o.shapes, a.print_output)
        return
    for text in output_lines(o.outputs, o.shapes, a.print_output, o.stacked):
        talk.page(text)
