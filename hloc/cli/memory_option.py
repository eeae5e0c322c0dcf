"""`--memory[=FILE.svg]`: the report on stderr, the chart in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hloc.cli.talk import Talk
from hloc.errors import HloError
from hloc.output_file import write_form

if TYPE_CHECKING:
    from hloc.codegen.backend import CompiledModule


def show_memory(compiled: CompiledModule | None, path: str, talk: Talk) -> None:
    """Print the sizes of the buffers of `compiled`; draw them into the file `path`, "" for none.

    Raises:
        HloError: the file cannot be written, or the target assigns no buffers.
    """
    from hloc.codegen.backend import PlannedModule
    from hloc.report.memory_chart import memory_chart
    from hloc.report.memory_report import memory_data, memory_lines

    if not isinstance(compiled, PlannedModule):
        raise HloError("--memory: buffers of this target are not assigned by hloc")
    assignment = compiled.plan.assignment
    talk.report("memory", memory_lines(assignment), memory_data(assignment))
    if path:
        write_form(path, memory_chart(compiled.module, assignment))
