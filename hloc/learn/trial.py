"""Check of a pass on one module: valid after each rewrite, goals, same results, termination."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import ModuleType

from hloc.analysis.diff.rewrite_text import describe_rewrite
from hloc.errors import HloError, InternalError
from hloc.ir.clone import clone_module
from hloc.ir.module import Module
from hloc.ir.verifier import verify
from hloc.lazy_dataclass import dataclass
from hloc.learn.equivalence import SECONDS, counterexample, input_lists
from hloc.learn.examples import rules_in
from hloc.learn.measure import quantity, total_cost, units
from hloc.learn.plan import LessonPlan, Task
from hloc.learn.report import Finding
from hloc.opt.pass_base import PassContext
from hloc.opt.pipeline import Pipeline
from hloc.report.answers import is_random
from hloc.report.time_limit import TookTooLong, time_limit

_MOST_REWRITES = 2_000
_SEARCHED = 60


@dataclass(frozen=True, slots=True)
class Verdict:
    """The findings on one module, and its cost afterwards."""

    findings: tuple[Finding, ...]
    cost: int


class _Stopped(Exception):
    """The pass cannot continue; the message says why."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Runs a pipeline of the student on one module.

    Attributes:
        file: the student's file, for the lines of its rules.
    """

    plan: LessonPlan
    task: Task
    pipeline: str
    file: ModuleType

    def verdict(self) -> Verdict:
        """Run all checks; later ones are skipped if an earlier failure makes them meaningless."""
        before, after = self.task.module(), self.task.module()
        inputs = [] if is_random(before) else input_lists(before, self.task.compare)
        context = self._context()
        try:
            self._run(after, context)
        except _Stopped as fault:
            return Verdict((self._finding("valid after each rewrite", str(fault)),), 0)
        found = [self._finding("valid after each rewrite", "")]
        wrong = counterexample(before, after, inputs, self.task.compare)
        if wrong:
            wrong = self._culprit(before, context.rewrites, wrong)
        found.append(self._finding("the answer stays the same", wrong))
        found.append(self._finding("comes to an end", self._fixpoint_fault(after, context)))
        measured = clone_module(after)
        Pipeline.parse(self.plan.then).run(measured)
        faults = [goal.fault(quantity(goal.quantity, measured)) for goal in self.task.goals]
        found.append(self._finding("goals", "\n".join(filter(None, faults))))
        return Verdict(tuple(found), units(total_cost(measured)))

    def _finding(self, what: str, fault: str) -> Finding:
        is_of_goals = what != "comes to an end"
        hint = f"\n{self.task.hint}" if fault and self.task.hint and is_of_goals else ""
        return Finding(f"{self.task.name}: {what}", not fault, fault + hint)

    def _context(self, limit: int | None = None) -> PassContext:
        return PassContext(fast_math=self.plan.fast_math, rewrite_limit=limit)

    def _run(self, module: Module, context: PassContext) -> bool:
        """Run the pipeline, verifying after each rewrite and at the end.

        Raises:
            _Stopped: the pass failed, returned a wrong change flag, left an invalid module, or did
                not end.
        """
        context.on_rewrite = partial(self._watch, module, context)
        try:
            with time_limit(SECONDS):
                changed = Pipeline.parse(self.pipeline, check_changed=True).run(module, context)
            verify(module)
        except TookTooLong:
            raise _Stopped(f"it takes more than {SECONDS:g} s") from None
        except InternalError as fault:
            if isinstance(fault.__cause__, TookTooLong):
                raise _Stopped(f"it takes more than {SECONDS:g} s") from None
            if isinstance(fault.__cause__, _Stopped):
                raise fault.__cause__ from None
            raise _Stopped(str(fault)) from None
        except HloError as fault:
            raise _Stopped(fault.message) from None
        return changed

    def _watch(self, module: Module, context: PassContext, by: str) -> None:
        if context.rewrites > _MOST_REWRITES:
            raise _Stopped(f"no end after {_MOST_REWRITES:,} rewrites; the last was {by}")
        try:
            verify(module)
        except HloError as fault:
            where = f"rewrite {context.rewrites}, {self._named(by)}"
            raise _Stopped(f"{where}, leaves an invalid module: {fault.message}") from None

    def _fixpoint_fault(self, after: Module, context: PassContext) -> str:
        """Return why there is no fixpoint: it stopped early, or a second run changes the module."""
        if context.warnings:
            return context.warnings[0]
        again = self._context()
        try:
            if not self._run(clone_module(after), again):
                return ""
        except _Stopped as fault:
            return str(fault)
        names = ", ".join(self._named(by) for by in again.fired)
        return (
            f"a second run changes the module again ({names or 'no rewrite was counted'}); "
            "an instruction without users needs no rewrite"
        )

    def _culprit(self, before: Module, rewrites: int, wrong: str) -> str:
        """Return the text of the first rewrite that changes the results, with the counterexample.

        The pass is run repeatedly, with one more rewrite each time.
        """
        inputs = input_lists(before, self.task.compare)
        for number in range(1, min(rewrites, _SEARCHED) + 1):
            module, context = self.task.module(), self._context(number)
            marks: list[tuple[str, int]] = [("", len(module.log.events))]
            check = partial(self._watch, module, context)

            def watch(
                by: str,
                module: Module = module,
                marks: list[tuple[str, int]] = marks,
                check: Callable[[str], None] = check,
            ) -> None:
                marks.append((by, len(module.log.events)))
                check(by)

            context.on_rewrite = watch
            with suppress(HloError, InternalError):
                Pipeline.parse(self.pipeline).run(module, context)
            found = counterexample(before, module, inputs, self.task.compare)
            if found and context.rewrites == number:
                by, end = marks[-1]
                text = describe_rewrite(module.log.events[marks[-2][1] : end])
                lines = [f"rewrite {number}, {self._named(by)}, changes the answer:"]
                lines += [f"  - {line}" for line in text.before]
                lines += [f"  + {line}" for line in text.after]
                return "\n".join([*lines, found])
        return f"pass {self.pipeline} changes the answer:\n{wrong}"

    def _named(self, by: str) -> str:
        """Return `mul-zero (mypass.py:6)` for a rule of the file, else the name of the pass."""
        name = by.partition("/")[2]
        for rule in rules_in(self.file):
            if rule.name == name:
                return f"rule {name} ({rule.where})"
        return f"pass {by}"
