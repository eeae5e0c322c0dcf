"""What the passes did, as they run: a table of times, changed lines, dumps, checks after each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from hloc.analysis.module_diff import Snapshot, diff_snapshots, snapshot
from hloc.cli.diff_text import diff_lines
from hloc.cli.talk import Talk
from hloc.cli.text import plural
from hloc.errors import HloError, InternalError
from hloc.ir.module import Module
from hloc.ir.verifier import verify
from hloc.opt.pass_base import Pass, PassContext
from hloc.opt.pipeline import Fixpoint, PassRun, PipelineObserver, text_of


@dataclass(frozen=True, slots=True)
class PassEntry:
    """What one pass did; `parts` are the rewrites by pass inside a fixpoint."""

    run: PassRun
    parts: tuple[tuple[str, int], ...]


@dataclass(slots=True)
class PassReport(PipelineObserver):
    """Collects what every pass did and prints what was asked for.

    Attributes:
        context: counts the rewrites.
        print_changed: `summary`, `diff` or "".
        print_after: patterns of pass names whose result is printed.
        entries: what the passes did, in order.
    """

    talk: Talk
    context: PassContext
    print_changed: str = ""
    print_after: tuple[str, ...] = ()
    style: str = "default"
    entries: list[PassEntry] = field(default_factory=list)
    _before: Snapshot = ()
    _fired: Counter[str] = field(default_factory=Counter)

    def on_pass_start(self, module: Module, number: int, what: Pass) -> None:
        """Keep the lines of the module for a diff, and the counts so far."""
        self._fired = self.context.fired.copy()
        if self.print_changed == "diff":
            self._before = snapshot(module)

    def on_pass_end(self, module: Module, run: PassRun) -> None:
        """Print what was asked for after this pass."""
        parts: Counter[str] = Counter()
        for by, count in (self.context.fired - self._fired).items():
            parts[by.partition("/")[0]] += count
        self.entries.append(PassEntry(run, tuple(parts.most_common())))
        if self.print_changed and run.changed:
            self._print_changed(module, run)
        names = names_of(run.what)
        if any(fnmatchcase(name, pattern) for pattern in self.print_after for name in names):
            self.talk.product(f"// after {text_of(run.what)}")
            self.talk.product(module.to_text(self.style, large_constants=False))

    def _print_changed(self, module: Module, run: PassRun) -> None:
        say, paint = self.talk.say, self.talk.paint
        say(paint.strong(f"{run.what.name}:") + f" {run.before} -> {run.after} instructions, "
            f"{plural(run.rewrites, 'rewrite')}")  # fmt: skip
        if self.print_changed == "diff":
            events = module.log.since(run.events[0])
            found = diff_snapshots(self._before, snapshot(module), events)
            for line in diff_lines(found, paint):
                say("  " + line)


def pass_table(entries: Sequence[PassEntry], stages: Sequence[tuple[str, float]]) -> list[str]:
    """Return the table of passes that changed something, and of later stages (name, seconds)."""
    lines = [f"  {'pass':28s}{'ms':>8s}{'rewrites':>11s}   instructions"]
    for entry in entries:
        run = entry.run
        if run.changed:
            lines.append(
                f"  {_short(run.what):28s}{run.wall_ms:8.1f}{run.rewrites:11,}"
                f"   {run.before:,} -> {run.after:,}"
            )
        if isinstance(run.what, Fixpoint):
            lines += [f"    {name:34s}{count:11,}" for name, count in entry.parts]
    lines += [f"  {name:28s}{seconds * 1e3:8.1f}" for name, seconds in stages]
    idle = [entry.run for entry in entries if not entry.run.changed]
    if idle:
        ms = sum(run.wall_ms for run in idle)
        lines.append(f"  ({plural(len(idle), 'pass')} changed nothing, {ms:.1f} ms)")
    return lines


def names_of(what: Pass) -> list[str]:
    """Return the names of a pass, and of those inside a fixpoint."""
    if isinstance(what, Fixpoint):
        return [what.name, *(name for inner in what.passes for name in names_of(inner))]
    return [what.name]


def _short(what: Pass) -> str:
    if isinstance(what, Fixpoint):
        return f"fixpoint of {plural(len(what.passes), 'pass')}"
    text = text_of(what)
    return text if len(text) <= 27 else text[:24] + "..."


class VerifyEach(PipelineObserver):
    """Verifies the module after every pass that changed it; the fault names the pass."""

    def on_pass_end(self, module: Module, run: PassRun) -> None:
        """Raise InternalError if the pass left an invalid module."""
        if run.changed:
            verify_after(module, text_of(run.what))


def verify_after(module: Module, what: str) -> None:
    """Raise InternalError if `module`, as pass `what` left it, is not valid."""
    try:
        verify(module)
    except HloError as fault:
        raise InternalError(f"pass {what} left an invalid module\n{fault}") from fault
