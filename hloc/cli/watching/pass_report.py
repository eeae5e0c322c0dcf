"""What the passes changed, printed as they run: `--print-changed`, `--print-after`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import field
from difflib import unified_diff
from fnmatch import fnmatchcase

from hloc.analysis.diff.diff_rows import DiffTable, table_of
from hloc.analysis.diff.module_lines import Snapshot, snapshot
from hloc.analysis.measure import Measure, measure_of
from hloc.cli.talk import Talk
from hloc.errors import printable
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.opt.pass_base import Pass, PassContext, PassRun
from hloc.opt.pipeline import Fixpoint, PipelineObserver, text_of
from hloc.report.diff.diff_data import diff_data
from hloc.report.diff.diff_lines import DiffView, side_lines, unified_lines
from hloc.report.measure_text import effect_data, effect_text
from hloc.report.no_gain import no_gain_text
from hloc.report.text import plural

_MOST_LINES = 120


@dataclass(slots=True, eq=False)
class PassReport(PipelineObserver):
    """Prints the effects of passes that the options ask for.

    Attributes:
        context: counts the rewrites.
        print_changed: one of `CHANGE_FORMS` (`options.py`), or "".
        print_after: patterns of pass names whose result is printed.
        text_options: arguments of `Module.to_text` for those.
        idle: steps that changed nothing.
    """

    talk: Talk
    context: PassContext
    print_changed: str = ""
    print_after: tuple[str, ...] = ()
    text_options: dict[str, str] = field(default_factory=dict)
    idle: int = 0
    _before: Snapshot | None = None
    _figures: Measure | None = None
    _text: str = ""
    _fired: Counter[str] = field(default_factory=Counter)
    _told: int = 0  # remarks before the step

    def on_step_start(self, module: Module, number: int, what: Pass) -> None:
        """Save the text of the module before the first change, and the counts so far."""
        self._fired = self.context.fired.copy()
        self._told = len(self.context.remarks or ())
        if self.print_changed and self._figures is None:
            self._figures = measure_of(module)
        if self._before is None and self.print_changed in ("diff", "side", "json"):
            self._before = snapshot(module)
        if not self._text and self.print_changed == "text":
            self._text = module.to_text("short", large_constants=False)

    def on_step_end(self, module: Module, run: PassRun) -> None:
        """Print the changes of this step."""
        if not run.changed:
            self.idle += 1
        elif self.print_changed:
            self._print_changed(module, run)

    def on_pass_end(self, module: Module, run: PassRun) -> None:
        """Print the module after this pass."""
        names = names_of(run.what)
        if any(fnmatchcase(name, pattern) for pattern in self.print_after for name in names):
            self.talk.product(f"// after {text_of(run.what)}")
            self.talk.product(module.to_text(**self.text_options, large_constants=False))

    def finish(self) -> None:
        """Print how many passes changed nothing."""
        if self.print_changed and self.print_changed != "json" and self.idle:
            self.talk.say(f"({plural(self.idle, 'run')} of passes changed nothing)")

    def _print_changed(self, module: Module, run: PassRun) -> None:
        """Print what one pass changed: rewrites, costs, and the diff in the form asked for."""
        rules = dict((self.context.fired - self._fired).most_common())
        assert self._figures is not None
        before, self._figures = self._figures, measure_of(module)
        if self.print_changed == "json":
            data = effect_data(before, self._figures) | diff_data(self._diff(module, run))
            self.talk.say(json.dumps({**run_data(run), "rules": rules, **data}))
            return
        head = f"{run.number + 1} {text_of(run.what)}:"
        self.talk.say(
            f"{self.talk.paint.strong(head)} {effect_text(before, self._figures)}   "
            f"{run.before:,} -> {run.after:,} instructions, "
            f"{plural(run.rewrites, 'rewrite')}{_rules_text(rules)}"
        )
        reason = no_gain_text(before, self._figures, (self.context.remarks or [])[self._told :])
        if reason:
            self.talk.say(self.talk.paint.dim(f"  {reason}"))
        for line in self._lines(module, run):
            self.talk.say("  " + line)

    def _lines(self, module: Module, run: PassRun) -> list[str]:
        if self.print_changed == "summary":
            return []
        if self.print_changed == "text":
            return self._text_lines(module)
        view = DiffView(self._diff(module, run), by=run.what.name)
        if self.print_changed == "side":
            return [*map(self.talk.paint.styled, side_lines(view, self.talk.width - 2))]
        lines = [*map(self.talk.paint.styled, unified_lines(view))]
        left = len(lines) - _MOST_LINES
        return [*lines[:_MOST_LINES], f"... {left} more lines"] if left > 0 else lines

    def _diff(self, module: Module, run: PassRun) -> DiffTable:
        """Return the changes since the last step that changed something."""
        assert self._before is not None
        before, self._before = self._before, snapshot(module)
        return table_of(before, self._before, tuple(module.log.since(run.events[0])))

    def _text_lines(self, module: Module) -> list[str]:
        before, self._text = self._text, module.to_text("short", large_constants=False)
        found = unified_diff(before.splitlines(), self._text.splitlines(), lineterm="", n=1)
        paint: Callable[[str], str] = self.talk.paint.diff_line
        return [paint(printable(line)) for line in list(found)[2:]]


def run_data(run: PassRun) -> dict[str, object]:
    """Return a step as JSON data."""
    return {
        "number": run.number + 1,
        "pass": run.what.name,
        "text": text_of(run.what),
        "changed": run.changed,
        "wall_ms": round(run.wall_ms, 3),
        "rewrites": run.rewrites,
        "instructions": [run.before, run.after],
    }


def _rules_text(rules: dict[str, int]) -> str:
    """Return ` (add-zero 3, negate-negate)` for counts by `pass/rule`."""
    named = [(by.partition("/")[2], count) for by, count in rules.items() if "/" in by]
    texts = [f"{rule} {count:,}" if count > 1 else rule for rule, count in named]
    return f" ({', '.join(texts)})" if texts else ""


def names_of(what: Pass) -> list[str]:
    """Return the names of a pass, and of those inside a fixpoint."""
    if isinstance(what, Fixpoint):
        return [what.name, *(name for inner in what.passes for name in names_of(inner))]
    return [what.name]
