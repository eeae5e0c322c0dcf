"""The checker: loads a student's file, runs it on the modules of a lesson, and reports findings.

Runs in the calling process; `sandbox.py` puts it into a child with limits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from hloc.errors import HloError
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.learn import measure
from hloc.learn.answers import check_answers
from hloc.learn.catalogue import Lesson
from hloc.learn.examples import check_examples
from hloc.learn.plan import LessonPlan, Task, read_plan
from hloc.learn.report import Finding, Report
from hloc.learn.trial import Trial, Verdict
from hloc.opt.plugin import load_plugin
from hloc.opt.registry import PASSES, forget_registered


def check_file(lesson: Lesson, path: str) -> Report:
    """Check the file `path` as an answer to the exercise of `lesson`.

    Passes and rules that plug-ins registered before are removed.

    Raises:
        HloError: the lesson itself is invalid.
    """
    plan = read_plan(lesson)
    try:
        file, passes = _load(path)
    except HloError as fault:
        return Report(path, lesson.name, (Finding("the file loads", False, fault.message),))
    findings = [Finding("the file loads", True), _documented(file), *check_examples(file)]
    findings += check_answers(plan.questions, vars(file).get("ANSWERS")) if plan.questions else []
    verdicts = _verdicts(plan, file, passes)
    findings += [finding for verdict in verdicts for finding in verdict.findings]
    report = Report(path, lesson.name, tuple(findings))
    if not report.passed:
        return report
    return Report(path, lesson.name, report.findings, _score(lesson, plan, verdicts))


def _load(path: str) -> tuple[ModuleType, list[str]]:
    """Return the file as a Python module, and the names of its passes, in order."""
    forget_registered()
    known = set(PASSES)
    file = load_plugin(path)
    return file, [name for name in PASSES if name not in known]


def _documented(file: ModuleType) -> Finding:
    text = "" if (file.__doc__ or "").strip() else "say in the first line what the file is for"
    return Finding("the file has a docstring", not text, text)


def _verdicts(plan: LessonPlan, file: ModuleType, passes: list[str]) -> list[Verdict]:
    if plan.kind == "schedule":
        return [_schedule(task, vars(file).get("schedule")) for task in plan.tasks]
    if not plan.tasks:
        return []
    if not passes:
        text = "the file has no Pass(...) and no subclass of ModulePass with a name"
        return [Verdict((Finding("the file brings a pass", False, text),), 0)]
    pipeline = plan.passes or ",".join(passes)
    return [Trial(plan, task, pipeline, file).verdict() for task in plan.tasks]


# ---------------------------------------------------------------- scores


def _score(lesson: Lesson, plan: LessonPlan, verdicts: Sequence[Verdict]) -> int:
    """Return the score of the costs relative to the reference, 100 if there is none."""
    if not verdicts or not lesson.has("reference.py"):
        return 100
    file, passes = _load(str(lesson.folder / "reference.py"))
    reference = _verdicts(plan, file, passes)
    shares = [
        min(1.0, best.cost / own.cost) if own.cost else 1.0
        for best, own in zip(reference, verdicts, strict=True)
    ]
    return round(100 * sum(shares) / len(shares))


# ---------------------------------------------------------------- schedules


def _schedule(task: Task, schedule: Callable[[Any], Any] | None) -> Verdict:
    """Check an order of the entry computation, and its peak."""
    if not callable(schedule):
        text = "expected a function schedule(computation) in the file"
        return Verdict((Finding(task.name, False, text),), 0)
    module = task.module()
    try:
        order = list(schedule(module.entry))
    except Exception as fault:
        text = f"schedule failed: {type(fault).__name__}: {fault}"
        return Verdict((Finding(task.name, False, text),), 0)
    text = _order_fault(module, order)
    if text:
        return Verdict((Finding(f"{task.name}: an order", False, text),), 0)
    peak = measure.peak(module.entry, order)
    faults = [text for goal in task.goals if (text := goal.fault(peak))]
    hint = [task.hint] if faults and task.hint else []
    goals = Finding(f"{task.name}: goals", not faults, "\n".join([*faults, *hint]))
    return Verdict((Finding(f"{task.name}: an order", True), goals), peak)


def _order_fault(module: Module, order: Sequence[Instruction]) -> str:
    """Return why `order` cannot run, "" if it can."""
    wanted = set(module.entry.instructions)
    done: set[Instruction] = set()
    for inst in order:
        if inst not in wanted:
            return f"{inst!r} is no instruction of {module.entry.name}"
        if inst in done:
            return f"{inst.name} occurs twice"
        for operand in (*inst.operands, *inst.control_predecessors):
            if operand not in done:
                return f"{inst.name} stands before its operand {operand.name}"
        done.add(inst)
    missing = [inst.name for inst in module.entry.instructions if inst not in done]
    return f"{', '.join(missing[:5])} missing" if missing else ""
