"""Bisection: find the first pass, and the first rewrite in it, that breaks a module.

Passes are deterministic, so any intermediate state is reproduced by running up to it. Two binary
searches: over the steps of the pipeline, then over the rewrites of one step.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import field

from hloc.analysis.diff.module_lines import line_of
from hloc.analysis.diff.rewrite_text import RewriteText, describe_rewrite
from hloc.errors import HloError, InternalError
from hloc.ir.clone import clone_module
from hloc.ir.module import Module
from hloc.ir.verifier import verify
from hloc.lazy_dataclass import dataclass
from hloc.opt.pass_base import Pass, PassContext, PassRun
from hloc.opt.pipeline import Pipeline, PipelineObserver, run_pass

FaultOf = Callable[[Module], str]
"""Describes the fault of an optimised, verified module, "" if it has none."""

MakeContext = Callable[[], PassContext]
OnSearch = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Culprit:
    """The first faulty rewrite.

    Attributes:
        step: number of the step in the pipeline, from 0.
        what: its pass.
        before: the module before that pass, valid and correct.
        rewrite: number of the rewrite within the pass, from 1; 0 if the pass counts none.
        rewrites: rewrites of the pass in total, until it ended or failed.
        rewrite_of_pipeline: number of the rewrite within the pipeline.
        by: `pass/rule`.
        text: instructions before and after it.
        fault: the fault after it.
        crashes: the pass failed by itself, or refused the module.
    """

    step: int
    what: Pass
    before: Module
    rewrite: int
    rewrites: int
    rewrite_of_pipeline: int
    by: str
    text: RewriteText
    fault: str
    crashes: bool


class _Stopped(Exception):
    """The run has reached the step at which it stops."""


@dataclass(slots=True, eq=False)
class _StopBefore(PipelineObserver):
    number: int

    def on_step_start(self, module: Module, number: int, what: Pass) -> None:
        if number == self.number:
            raise _Stopped


@dataclass(slots=True, eq=False)
class _Steps(PipelineObserver):
    """Records the steps of a run; the last may not have finished."""

    context: PassContext
    started: list[tuple[Pass, int]] = field(default_factory=list)
    ended: list[PassRun] = field(default_factory=list)

    def on_step_start(self, module: Module, number: int, what: Pass) -> None:
        self.started.append((what, self.context.rewrites))

    def on_step_end(self, module: Module, run: PassRun) -> None:
        self.ended.append(run)


def module_before_step(
    original: Module, pipeline: Pipeline, context: PassContext, step: int
) -> Module:
    """Return a copy of `original` after the steps before `step` of `pipeline`."""
    module = clone_module(original)
    replay = Pipeline(pipeline.passes)
    replay.observe(_StopBefore(step))
    with suppress(_Stopped):
        replay.run(module, context)
    return module


def find_culprit(
    original: Module,
    pipeline: Pipeline,
    make_context: MakeContext,
    fault_of: FaultOf,
    on_search: OnSearch = lambda _: None,
) -> Culprit | None:
    """Return the first faulty rewrite, None if the final module is correct.

    Args:
        original: valid and correct; it is not changed.
        pipeline: the passes.
        make_context: returns a fresh context for every run.
        fault_of: judges a state that the verifier accepts.
        on_search: called with the state being tested.
    """
    search = _Search(original, pipeline, make_context, fault_of, on_search)
    steps, crash = search.all_steps()
    changed = [run.number for run in steps.ended if run.changed]
    low, high = -1, len(changed) - 1
    if high < 0 or not search.fault_after(changed[high]):
        # If the module was still correct before a pass failed, that pass is the culprit.
        return search.within(len(steps.started) - 1, steps, crash) if crash else None
    while high - low > 1:
        middle = (low + high) // 2
        on_search(f"step {changed[middle] + 1} of {len(steps.started)}")
        if search.fault_after(changed[middle]):
            high = middle
        else:
            low = middle
    return search.within(changed[high], steps, "")


@dataclass(frozen=True, slots=True)
class _Search:
    original: Module
    pipeline: Pipeline
    make_context: MakeContext
    fault_of: FaultOf
    on_search: OnSearch

    def all_steps(self) -> tuple[_Steps, str]:
        """Run the whole pipeline; return its steps, and why it failed."""
        context = self.make_context()
        steps = _Steps(context)
        watched = Pipeline(self.pipeline.passes)
        watched.observe(steps)
        try:
            watched.run(clone_module(self.original), context)
        except (InternalError, HloError) as fault:
            return steps, str(fault)
        return steps, ""

    def fault_after(self, step: int) -> str:
        module = module_before_step(self.original, self.pipeline, self.make_context(), step + 1)
        return self._fault(module)

    def _fault(self, module: Module) -> str:
        try:
            verify(module)
        except HloError as fault:
            return f"the module is invalid: {fault.message}"
        return self.fault_of(module)

    def within(self, step: int, steps: _Steps, crash: str) -> Culprit:
        """Return the culprit among the rewrites of `step`."""
        what, earlier = steps.started[step]
        before = module_before_step(self.original, self.pipeline, self.make_context(), step)
        total, fault = self._run(what, before, None)
        low, high = 0, total + bool(crash)
        while high - low > 1:
            middle = (low + high) // 2
            self.on_search(f"rewrite {middle} of {total} of {what.name}")
            _, found = self._run(what, before, middle)
            if found:
                high, fault = middle, found
            else:
                low = middle
        by, text = self._rewrite(what, before, high)
        return Culprit(
            step, what, before, high, total, earlier + high, by, text, fault or crash, bool(crash)
        )

    def _run(self, what: Pass, before: Module, limit: int | None) -> tuple[int, str]:
        """Run `what` on a copy of `before`; return its rewrites and the fault after it."""
        module, context = clone_module(before), self.make_context()
        context.rewrite_limit = limit
        try:
            run_pass(what, module, context)
        except (InternalError, HloError) as fault:
            return context.rewrites, str(fault)
        return context.rewrites, self._fault(module)

    def _rewrite(self, what: Pass, before: Module, number: int) -> tuple[str, RewriteText]:
        """Return the rule and the lines of rewrite `number` of `what`."""
        module, context = clone_module(before), self.make_context()
        context.rewrite_limit = number
        marks = [0]
        context.on_rewrite = lambda _: marks.append(len(module.log.events))
        try:
            run_pass(what, module, context)
        except (InternalError, HloError):
            text, at = describe_rewrite(module.log.since(marks[-1])), context.at
            if at is not None:
                text = RewriteText(at.name, text.before or (line_of(at).text(),), text.after)
            return context.rule or what.name, text
        events = module.log.since(marks[number - 1] if 0 < number < len(marks) else 0)
        return next((event.by for event in events), "") or what.name, describe_rewrite(events)
