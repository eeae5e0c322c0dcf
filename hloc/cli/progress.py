"""Progress of a command: the line on its stderr, and the count of passes."""

from __future__ import annotations

import io

from hloc.cli.talk import Talk
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.opt.pass_base import Pass, PassContext
from hloc.opt.pipeline import PipelineObserver, steps_of
from hloc.report.progress import Progress


def progress_of(talk: Talk, what: str = "") -> Progress:
    """Return the progress line of a command; it is cleared while `talk` writes."""
    progress = Progress(io.StringIO() if talk.quiet else talk.err, what)
    talk.aside = progress.aside
    return progress


@dataclass(slots=True, eq=False)
class PassProgress(PipelineObserver):
    """Counts the passes of a pipeline, and shows the running one and the rewrites so far.

    Rounds of a fixpoint after its first are not counted: their number is not known in advance.
    """

    progress: Progress
    context: PassContext
    passes: tuple[Pass, ...]
    _counted: int = 0  # steps of the pipeline up to the end of the running pass

    def on_pass_start(self, module: Module, number: int, what: Pass) -> None:
        """Start the bar with the first pass."""
        if not number:
            self.progress.begin("passes", steps_of(self.passes))
            self._counted = 0
        self._counted += steps_of((what,))

    def on_step_start(self, module: Module, number: int, what: Pass) -> None:
        """Show the pass that starts."""
        self.progress.detail = lambda: f"{what.name}, {self.context.rewrites:,} rewrites"

    def on_step_end(self, module: Module, run: object) -> None:
        """Count the step."""
        self.progress.done = min(self.progress.done + 1, self._counted)

    def on_pass_end(self, module: Module, run: object) -> None:
        """Count the steps that a fixpoint skipped."""
        self.progress.done = self._counted
