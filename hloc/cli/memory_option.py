"""`--memory[=FILE.svg]`: the report on stderr, the chart in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hloc.cli.emit import write_form
from hloc.cli.memory_chart import memory_chart
from hloc.cli.memory_report import memory_lines
from hloc.cli.talk import Talk
from hloc.errors import HloError

if TYPE_CHECKING:
    from hloc.codegen.backend import CompiledModule


def show_memory(compiled: CompiledModule | None, path: str, talk: Talk) -> None:
    """Print what the buffers of `compiled` take; draw them into the file `path`, "" for none.

    Raises:
        HloError: the file cannot be written, or the target assigns no buffers.
    """
    from hloc.codegen.cpu.backend import CpuModule

    if not isinstance(compiled, CpuModule):
        raise HloError("--memory needs a module compiled for the target cpu")
    assignment = compiled.plan.assignment
    talk.say("\n".join(memory_lines(assignment)))
    if path:
        write_form(path, memory_chart(compiled.module, assignment))
