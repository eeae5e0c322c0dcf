"""`--autotune` on the CPU: the report of what was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hloc.cli.talk import Talk
from hloc.report.tuning_text import tuning_data, tuning_lines

if TYPE_CHECKING:
    from hloc.codegen.backend import CompiledModule


def show_tuning(compiled: CompiledModule | None, talk: Talk) -> None:
    """Report the kernels of a module that were measured."""
    tunings = getattr(compiled, "tuning", ())
    talk.report("autotune", tuning_lines(tunings), tuning_data(tunings))
