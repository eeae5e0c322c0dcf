"""The buffers and the kernels of a state, as a chart and as text."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from hloc.codegen.cpu.backend import CpuModule
from hloc.pictures.plain_page import chart_page
from hloc.pictures.roofline import Kernel, Roofs, roofline
from hloc.report.memory_chart import memory_chart
from hloc.report.memory_report import memory_lines
from hloc.report.roofline_kernels import modelled_kernels
from hloc.report.roofline_table import roofline_table
from hloc.runtime.machine_peaks import measure_peaks
from hloc.web.walks import Walked
from repl.lowering import compiled_module
from repl.profiling import profile
from repl.state import State


def memory_view(walked: Walked, state: State, _question: object) -> dict[str, Any]:
    """Return the arena of the compiled state as a chart, and the report of all its buffers."""
    compiled = compiled_module(walked.go_to(state), state.module)
    assert isinstance(compiled, CpuModule)
    assignment = compiled.plan.assignment
    chart = memory_chart(compiled.module, assignment)
    title = f"{state.module.name}: memory"
    return {"html": chart_page(title, chart), "text": "\n".join(memory_lines(assignment))}


def roofline_view(walked: Walked, state: State, question: dict[str, Any]) -> dict[str, Any]:
    """Return the kernels of a state against the peaks of this machine, as a chart and a table.

    The times are those of the cost model, or measured in the child process of the session.
    """
    roofs = _roofs()
    kernels = [kernel for _, kernel in modelled_kernels(state.module, roofs)]
    if question["measure"]:
        kernels = _measured(walked, state, kernels)
    title = f"{state.module.name}: roofline of one thread"
    chart = roofline(title, roofs, kernels)
    text = "\n".join(roofline_table(roofs, kernels)) or "The state has no kernels."
    return {"html": chart_page(title, chart), "text": text}


@lru_cache(maxsize=1)
def _roofs() -> Roofs:
    peaks = measure_peaks()
    return Roofs(peaks.flops, peaks.memories)


def _measured(walked: Walked, state: State, kernels: list[Kernel]) -> list[Kernel]:
    """Return the kernels with the times of those of the entry computation that were timed."""
    timed = profile(walked.go_to(state), state).kernels
    seconds = {kernel.name: kernel.seconds for kernel in timed if kernel.seconds}
    return [
        replace(kernel, seconds=seconds[kernel.name], measured=True)
        if kernel.name in seconds
        else kernel
        for kernel in kernels
    ]
