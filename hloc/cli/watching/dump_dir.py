"""`--dump-dir`: the module after every pass that changed it, a manifest, and a page to browse them.

The page shows the diff of a pass, and in a frame its graph, a separate file (`step_graph`).
Each `NN-pass.hlo` is a complete module with full constants, which hloc can read again.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from dataclasses import field
from typing import Any

from hloc.analysis.diff.diff_rows import table_of
from hloc.analysis.diff.module_diff import diff_snapshots
from hloc.analysis.diff.module_lines import Snapshot, snapshot
from hloc.analysis.measure import Measure, measure_of
from hloc.cli.talk import Talk
from hloc.cli.watching.pass_report import run_data
from hloc.cli.watching.step_graph import StepGraph
from hloc.errors import HloError, reason_of
from hloc.ir.clone import clone_module
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.opt.pass_base import Pass, PassContext, PassRun
from hloc.opt.pipeline import PipelineObserver
from hloc.output_file import write_form
from hloc.report.diff.diff_cells import diff_cells
from hloc.report.measure_text import effect_data, effect_text
from hloc.report.text import plural

VERSION = 1
MANIFEST = "manifest.json"
INPUT = "00-input.hlo"
RESUMED = ("opt_level", "fast_math", "disable_rule", "target")
"""Options that the manifest keeps for `--resume-from`, beside the pipeline."""

_STEP_FILE = re.compile(r"\d+-[\w.+-]+\.(hlo|html)")


@dataclass(slots=True, eq=False)
class DumpDir(PipelineObserver):
    """Writes `00-input.hlo`, a file per step that changed something, and `finish` the rest.

    Attributes:
        options: values of `RESUMED`.
    """

    talk: Talk
    folder: str
    context: PassContext
    pipeline: str
    options: dict[str, Any]
    _pass: int = 0
    _inner: int = 0  # steps so far of this pass
    _steps: list[dict[str, Any]] = field(default_factory=list)
    _before: Snapshot | None = None
    _figures: Measure | None = None
    _graph: StepGraph | None = None
    _fired: Counter[str] = field(default_factory=Counter)
    _name: str = ""

    def begin(self, module: Module) -> None:
        """Create the folder, remove the files of an earlier dump, and write the input.

        Raises:
            HloError: the folder or a file cannot be written.
        """
        try:
            os.makedirs(self.folder, exist_ok=True)
            _drop_earlier(self.folder)
        except OSError as fault:
            raise HloError(f"cannot write {self.folder}: {reason_of(fault)}") from None
        self._name = module.name
        self._before, self._figures = snapshot(module), measure_of(module)
        self._graph = StepGraph(self.folder, clone_module(module))
        self._write(INPUT, module)

    def on_pass_start(self, module: Module, number: int, what: Pass) -> None:
        """Record the position in the pipeline of the next steps."""
        self._pass, self._inner = number, 0

    def on_step_start(self, module: Module, number: int, what: Pass) -> None:
        """Save the counts before the step."""
        self._fired = self.context.fired.copy()

    def on_step_end(self, module: Module, run: PassRun) -> None:
        """Write the module and record the changes."""
        step = {**run_data(run), "pipeline": [self._pass, self._inner]}
        self._inner += 1
        if run.changed:
            assert self._before is not None
            before, self._before = self._before, snapshot(module)
            events = tuple(module.log.since(run.events[0]))
            found = table_of(before, self._before, events)
            step["rules"] = dict((self.context.fired - self._fired).most_common())
            name = f"{run.number + 1:02d}-{run.what.name}"
            step["file"] = f"{name}.hlo"
            step["summary"] = found.summary()
            assert self._figures is not None
            figures, self._figures = self._figures, measure_of(module)
            step["effect"] = effect_text(figures, self._figures, "→")
            step |= effect_data(figures, self._figures)
            step["rows"] = diff_cells(found)
            self._write(str(step["file"]), module)
            assert self._graph is not None
            diff = diff_snapshots(before, self._before, events)
            graph = self._graph.write(module, name, diff)
            if graph is not None:
                step["graph"] = graph
        self._steps.append(step)

    def finish(self) -> None:
        """Write `manifest.json` and `index.html`, and say where they are."""
        head = {"version": VERSION, "module": self._name, "pipeline": self.pipeline}
        steps = [{k: v for k, v in step.items() if k != "rows"} for step in self._steps]
        manifest = {**head, "input": INPUT, "options": self.options, "steps": steps}
        write_form(os.path.join(self.folder, MANIFEST), json.dumps(manifest, indent=1))
        page = os.path.join(self.folder, "index.html")
        from hloc.cli.explorer_page import explorer_page

        write_form(page, explorer_page({**head, "steps": self._steps}))
        written = plural(sum("file" in step for step in self._steps), "step")
        self.talk.say(f"dump: {written}, browse it in {page}")

    def _write(self, name: str, module: Module) -> None:
        write_form(os.path.join(self.folder, name), module.to_text(large_constants=True))


def _drop_earlier(folder: str) -> None:
    """Remove the step files that a manifest in `folder` names: they belong to another run."""
    try:
        with open(os.path.join(folder, MANIFEST), encoding="utf-8") as file:
            steps = json.load(file)["steps"]
        keys = ("file", "graph")
        names = [str(step[key]) for step in steps for key in keys if key in step]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return
    for name in names:
        path = os.path.join(folder, name)
        if _STEP_FILE.fullmatch(name) and os.path.isfile(path):
            os.remove(path)
