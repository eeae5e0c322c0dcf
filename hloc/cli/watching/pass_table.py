"""`--time-passes`: the time and the changes of each pass and stage, as a table or as data."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import field
from typing import Any

from hloc.analysis.cost import module_cost
from hloc.cli.talk import Talk
from hloc.cli.watching.pass_report import run_data
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.opt.pass_base import Pass, PassRun
from hloc.opt.pipeline import Fixpoint, PipelineObserver, text_of
from hloc.report.text import cut, plural

_NAME = 26


@dataclass(slots=True)
class _Totals:
    """The totals of one pass inside one fixpoint."""

    wall_ms: float = 0.0
    rewrites: int = 0
    instructions: int = 0


@dataclass(frozen=True, slots=True)
class _Row:
    run: PassRun
    end: float  # of `time.perf_counter`
    flops: tuple[int, int]
    bytes: tuple[int, int]
    parts: dict[str, _Totals]
    steps: list[tuple[PassRun, float]]  # of a fixpoint, with their ends


@dataclass(frozen=True, slots=True)
class StageTime:
    """A stage before or after the passes.

    Attributes:
        note: further text of its row.
        end: its end, by `time.perf_counter`.
    """

    name: str
    seconds: float
    note: str = ""
    end: float = field(default_factory=time.perf_counter)


@dataclass(slots=True, eq=False)
class PassTimes(PipelineObserver):
    """Collects times, rewrites and costs of every pass of the pipeline."""

    _rows: list[_Row] = field(default_factory=list)
    _steps: list[tuple[PassRun, float]] = field(default_factory=list)
    _parts: dict[str, _Totals] = field(default_factory=dict)
    _cost: tuple[int, int] | None = None

    def on_pass_start(self, module: Module, number: int, what: Pass) -> None:
        """Record the cost before the first pass."""
        self._parts, self._steps = {}, []
        if self._cost is None:
            self._cost = _cost_of(module)

    def on_step_end(self, module: Module, run: PassRun) -> None:
        """Sum the steps of a fixpoint by pass."""
        self._steps.append((run, time.perf_counter()))
        totals = self._parts.setdefault(run.what.name, _Totals())
        totals.wall_ms += run.wall_ms
        totals.rewrites += run.rewrites
        totals.instructions += run.after - run.before

    def on_pass_end(self, module: Module, run: PassRun) -> None:
        """Record the row of a pass."""
        assert self._cost is not None
        before, end = self._cost, time.perf_counter()
        if run.changed:
            self._cost = _cost_of(module)
        flops, moved = zip(before, self._cost, strict=True)
        is_group = isinstance(run.what, Fixpoint)
        parts, steps = (self._parts, self._steps) if is_group else ({}, [])
        self._rows.append(_Row(run, end, flops, moved, parts, steps))

    def table(self, first: StageTime, stages: Sequence[StageTime]) -> list[str]:
        """Return the table: passes that changed something, then `stages`, idle ones, the total.

        Args:
            first: the stage before the passes.
            stages: those after them.
        """
        lines = [
            f"  {'pass':{_NAME}s}{'ms':>8s}{'rewrites':>10s}  {'instrs':16s}{'flops':>8s}"
            f"{'bytes':>8s}"
        ]
        lines.append(_stage_line(first))
        for row in self._rows:
            if row.run.changed:
                lines += _row_lines(row)
        lines += map(_stage_line, stages)
        idle = [row.run for row in self._rows if not row.run.changed]
        if idle:
            ms = sum(run.wall_ms for run in idle)
            lines.append(f"  ({plural(len(idle), 'pass')} changed nothing, {ms:.1f} ms)")
        passes = sum(row.run.wall_ms for row in self._rows)
        total = passes + sum(stage.seconds for stage in (first, *stages)) * 1e3
        lines.append(f"  {'total':{_NAME}s}{total:8.1f}   passes {passes:.1f} ms")
        return lines

    def data(self, first: StageTime, stages: Sequence[StageTime]) -> dict[str, Any]:
        """Return the same for JSON; every pass is listed, in the order of the pipeline."""
        passes = [
            {**run_data(row.run), "flops": row.flops, "bytes": row.bytes} for row in self._rows
        ]
        found = [
            {"name": stage.name, "wall_ms": round(stage.seconds * 1e3, 3), "note": stage.note}
            for stage in (first, *stages)
        ]
        total = sum(row.run.wall_ms for row in self._rows)
        total += sum(stage.seconds for stage in (first, *stages)) * 1e3
        return {"passes": passes, "stages": found, "total_ms": round(total, 3)}

    def trace(self, first: StageTime, stages: Sequence[StageTime]) -> dict[str, Any]:
        """Return the same as a Chrome trace, which Perfetto and chrome://tracing open.

        The rounds of a fixpoint are nested below it.
        """
        zero = first.end - first.seconds
        events: list[dict[str, Any]] = []

        def add(name: str, kind: str, end: float, ms: float, about: dict[str, Any]) -> None:
            start = (end - zero) * 1e6 - ms * 1e3
            times = {"ts": round(max(0.0, start), 1), "dur": round(ms * 1e3, 1)}
            place = {"ph": "X", "cat": kind, "pid": 1, "tid": 1}
            events.append({"name": name, **place, **times, "args": about})

        for stage in (first, *stages):
            add(stage.name, "stage", stage.end, stage.seconds * 1e3, {"note": stage.note})
        for row in self._rows:
            add(_short(row.run.what), "pass", row.end, row.run.wall_ms, run_data(row.run))
            for run, end in row.steps:
                add(run.what.name, "step", end, run.wall_ms, run_data(run))
        events.sort(key=lambda event: (event["ts"], -event["dur"]))
        return {"displayTimeUnit": "ms", "traceEvents": events}


def show_times(
    times: PassTimes, form: str, first: StageTime, stages: Sequence[StageTime], talk: Talk
) -> None:
    """Print what `--time-passes` asks for: a table to stderr, or data to stdout."""
    if form == "text" or talk.data is not None:
        talk.report("times", times.table(first, stages), times.data(first, stages))
    else:
        data = times.trace(first, stages) if form == "trace" else times.data(first, stages)
        talk.product(json.dumps(data))


def _stage_line(stage: StageTime) -> str:
    note = f"{'-':>10s}  {stage.note}" if stage.note else ""
    return f"  {stage.name:{_NAME}s}{stage.seconds * 1e3:8.1f}{note}"


def _cost_of(module: Module) -> tuple[int, int]:
    cost = module_cost(module)
    return cost.flops + cost.transcendentals, cost.bytes


def _row_lines(row: _Row) -> list[str]:
    run = row.run
    instructions = f"{run.before:,} -> {run.after:,}"
    lines = [
        f"  {_short(run.what):{_NAME}s}{run.wall_ms:8.1f}{run.rewrites:10,}"
        f"  {instructions:16s}{_change(row.flops):>8s}{_change(row.bytes):>8s}"
    ]
    for name, part in row.parts.items():
        if part.rewrites or part.instructions:
            instructions = f"{part.instructions:+,}" if part.instructions else "="
            lines.append(
                f"    {cut(name, _NAME - 3):{_NAME - 2}s}{part.wall_ms:8.1f}{part.rewrites:10,}"
                f"  {instructions}"
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
    return cut(text_of(what), _NAME - 1)
