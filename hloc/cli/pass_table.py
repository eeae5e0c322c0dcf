"""`--time-passes`: a table of the time and the changes of each pass and each later stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from hloc.analysis.cost import module_cost
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.opt.pass_base import Pass, PassRun
from hloc.opt.pipeline import Fixpoint, PipelineObserver, text_of
from hloc.report.text import plural

_NAME = 28


@dataclass(slots=True)
class _Totals:
    """What the runs of one pass inside one fixpoint came to."""

    wall_ms: float = 0.0
    rewrites: int = 0
    instructions: int = 0


@dataclass(frozen=True, slots=True)
class _Row:
    run: PassRun
    flops: tuple[int, int]
    bytes: tuple[int, int]
    parts: dict[str, _Totals]


@dataclass(frozen=True, slots=True)
class StageTime:
    """A stage after the passes: its name, what it took, and what it has to say."""

    name: str
    seconds: float
    note: str = ""


@dataclass(slots=True, eq=False)
class PassTimes(PipelineObserver):
    """Collects times, rewrites and costs of every pass of the pipeline."""

    _rows: list[_Row] = field(default_factory=list)
    _parts: dict[str, _Totals] = field(default_factory=dict)
    _cost: tuple[int, int] | None = None

    def on_pass_start(self, module: Module, number: int, what: Pass) -> None:
        """Take the cost before the first pass."""
        self._parts = {}
        if self._cost is None:
            self._cost = _cost_of(module)

    def on_step_end(self, module: Module, run: PassRun) -> None:
        """Add up the steps of a fixpoint by pass."""
        totals = self._parts.setdefault(run.what.name, _Totals())
        totals.wall_ms += run.wall_ms
        totals.rewrites += run.rewrites
        totals.instructions += run.after - run.before

    def on_pass_end(self, module: Module, run: PassRun) -> None:
        """Note the row of a pass."""
        assert self._cost is not None
        before = self._cost
        if run.changed:
            self._cost = _cost_of(module)
        flops, moved = zip(before, self._cost, strict=True)
        parts = self._parts if isinstance(run.what, Fixpoint) else {}
        self._rows.append(_Row(run, flops, moved, parts))

    def table(self, stages: Sequence[StageTime]) -> list[str]:
        """Return the table: passes that changed something, then `stages`, then the idle ones."""
        lines = [
            f"  {'pass':{_NAME}s}{'ms':>8s}{'rewrites':>11s}   {'instrs':18s}{'flops':>9s}"
            f"{'bytes':>9s}"
        ]
        for row in self._rows:
            if row.run.changed:
                lines += _row_lines(row)
        for stage in stages:
            note = f"{'-':>11s}   {stage.note}" if stage.note else ""
            lines.append(f"  {stage.name:{_NAME}s}{stage.seconds * 1e3:8.1f}{note}")
        idle = [row.run for row in self._rows if not row.run.changed]
        if idle:
            ms = sum(run.wall_ms for run in idle)
            lines.append(f"  ({plural(len(idle), 'pass')} changed nothing, {ms:.1f} ms)")
        return lines


def _cost_of(module: Module) -> tuple[int, int]:
    cost = module_cost(module)
    return cost.flops + cost.transcendentals, cost.bytes


def _row_lines(row: _Row) -> list[str]:
    run = row.run
    instructions = f"{run.before:,} -> {run.after:,}"
    lines = [
        f"  {_short(run.what):{_NAME}s}{run.wall_ms:8.1f}{run.rewrites:11,}"
        f"   {instructions:18s}{_change(row.flops):>9s}{_change(row.bytes):>9s}"
    ]
    for name, part in row.parts.items():
        if part.rewrites or part.instructions:
            instructions = f"{part.instructions:+,}" if part.instructions else "="
            lines.append(
                f"    {name:{_NAME - 2}s}{part.wall_ms:8.1f}{part.rewrites:11,}   {instructions}"
            )
    return lines


def _change(values: tuple[int, int]) -> str:
    """Return `=`, or the change in per cent: `-58.0%`."""
    before, after = values
    if before == after:
        return "="
    if not before:
        return f"+{after:,}"
    change = 100.0 * (after - before) / before
    return f"{change:+.1f}%" if abs(change) < 1000 else f"x{after / before:.0f}"


def _short(what: Pass) -> str:
    if isinstance(what, Fixpoint):
        return f"fixpoint of {plural(len(what.passes), 'pass')}"
    text = text_of(what)
    return text if len(text) < _NAME else text[: _NAME - 4] + "..."
