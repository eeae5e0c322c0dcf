"""A pass that a pipeline leaves out would have changed nothing."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

import pytest

import hloc
from hloc.driver import optimise
from hloc.errors import HloError
from hloc.ir.clone import clone_module
from hloc.ir.module import Module
from hloc.ops import OPCODES
from hloc.opt import pipeline as frame
from hloc.opt.pass_base import Pass, PassContext, PassRun
from hloc.opt.pipeline import Pipeline, PipelineObserver
from hloc.opt.registry import PASSES, pass_class
from hloc.options import CompileOptions
from tests.goldens import GOLDEN, read_cases
from tests.unit.opt.modules import negations

ROOT = Path(__file__).resolve().parents[3]
DECLARED = [name for name in PASSES if hasattr(pass_class(name), "acts_on")]


@cache
def modules() -> tuple[Module, ...]:
    """Return small examples, the guarded modules, and both sides of all golden cases of passes."""
    paths = [*(ROOT / "examples").glob("*.hlo"), *(ROOT / "tests" / "guarded").glob("*.hlo")]
    texts = [path.read_text() for path in sorted(paths) if path.stat().st_size < 20_000]
    for path in sorted((GOLDEN / "opt").rglob("*.hlo")):
        texts += [text for case in read_cases(path) for text in (case.text, case.expected) if text]
    found = []
    for text in texts:
        with suppress(HloError):
            found.append(hloc.parse(text))
    return tuple(found)


def changes(p: Pass, module: Module, like: PassContext) -> bool:
    """Return whether `p`, run in a context of the same rules, says or does anything to `module`."""
    events, version = len(module.log.events), module.version
    context = PassContext(disabled_rules=like.disabled_rules, fast_math=like.fast_math)
    changed = p.run(module, context)
    return changed or len(module.log.events) > events or module.version > version


@pytest.mark.parametrize("name", DECLARED)
def test_a_pass_needs_one_of_the_opcodes_that_it_acts_on(name: str) -> None:
    cls = pass_class(name)
    assert cls.acts_on <= OPCODES.keys()
    left_out = [module for module in modules() if cls.acts_on.isdisjoint(module.opcodes)]
    assert len(left_out) > 20
    for module in left_out:
        assert not changes(cls(), module, PassContext()), module


@pytest.mark.parametrize("level", [1, 2])
def test_passes_that_pipelines_leave_out_would_change_nothing(
    level: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_out: list[str] = []
    real = frame.has_nothing_to_do

    def checked(p: Pass, module: Module, context: PassContext) -> bool:
        answer = real(p, module, context)
        if answer:
            left_out.append(p.name)
            assert not changes(p, module, context), f"{p} would have changed {module.name}"
        return answer

    monkeypatch.setattr(frame, "has_nothing_to_do", checked)
    for module in modules():
        with suppress(HloError):
            optimise(clone_module(module), CompileOptions(opt_level=level))
    assert {"while-loop-simplifier", "tuple-simplifier"} <= {*left_out}
    assert ("cse" in left_out) == (level > 1)
    assert ("dce" in left_out) == (level > 1)  # where it runs more than once


def test_modules_are_the_same_whether_passes_are_left_out_or_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def optimised() -> Iterator[str]:
        for module in modules()[::7]:
            copy = clone_module(module)
            with suppress(HloError):
                optimise(copy, CompileOptions(opt_level=2))
                yield copy.to_text()

    with_all = list(optimised())
    monkeypatch.setattr(frame, "has_nothing_to_do", lambda *_: False)
    assert with_all == list(optimised())


# ---------------------------------------------------------------- what is remembered


@dataclass(frozen=True)
class Counting:
    """Changes nothing, and counts how often it is asked to."""

    name: ClassVar[str] = "counting"
    runs: ClassVar[list[int]] = []

    def run(self, module: Module, context: PassContext) -> bool:
        self.runs.append(module.version)
        return False


@dataclass(frozen=True)
class Renaming:
    """Always changes something."""

    name: ClassVar[str] = "renaming"

    def run(self, module: Module, context: PassContext) -> bool:
        with context.rewriting(module, self.name):
            module.entry.rename(module.entry.root, "other")
        return True


@dataclass(frozen=True)
class Completing(Counting):
    """Changes something, after which it has nothing more to change."""

    is_complete: ClassVar[bool] = True

    def run(self, module: Module, context: PassContext) -> bool:
        super().run(module, context)
        return Renaming().run(module, context)


@pytest.fixture
def counting() -> Counting:
    Counting.runs.clear()
    return Counting()


def test_a_pass_runs_again_only_after_a_change(counting: Counting) -> None:
    rename = Renaming()
    Pipeline((counting, counting, rename, counting, counting)).run(negations(2))
    assert len(Counting.runs) == 2


def test_a_complete_pass_runs_again_only_after_more_than_removals(counting: Counting) -> None:
    module, complete, dce = negations(2), Completing(), pass_class("dce")()
    module.entry.add(OPCODES["negate"], module.entry.root.shape, [module.entry.root])
    Pipeline((complete, dce, complete)).run(module)
    assert module.removals == 1
    assert len(Counting.runs) == 1
    Pipeline((complete, Renaming(), complete)).run(module)
    assert len(Counting.runs) == 3


def test_what_waited_or_called_is_no_mere_removal() -> None:
    module = hloc.parse(_WAITING_AND_CALLING)
    pass_class("dce")().run(module, PassContext())
    assert len(module.entry) == 1
    assert module.removals == 0


_WAITING_AND_CALLING = """HloModule m

f {
  x = f32[2] parameter(0)
  ROOT y = f32[2] negate(x)
}

ENTRY e {
  ROOT p = f32[2] parameter(0)
  a = f32[2] call(p), to_apply=f
  b = f32[2] sine(p), control-predecessors={p}
}
"""


def test_a_pass_runs_for_each_module_and_each_context(counting: Counting) -> None:
    pipeline, shared = Pipeline((counting,)), PassContext()
    first, second = negations(2), negations(2)
    assert first.version == second.version
    for module in (first, second, first):
        pipeline.run(module, shared)
    assert len(Counting.runs) == 3  # only the last module is remembered
    pipeline.run(first, shared)
    assert len(Counting.runs) == 3
    pipeline.run(first)
    assert len(Counting.runs) == 4


def test_a_pass_at_its_limit_is_asked_again(counting: Counting) -> None:
    context = PassContext(rewrite_limit=0)
    Pipeline((counting, counting)).run(negations(2), context)
    assert len(Counting.runs) == 2


def test_remarks_are_made_by_every_run(counting: Counting) -> None:
    Pipeline((counting, counting)).run(negations(2), PassContext(remarks=[]))
    assert len(Counting.runs) == 2


def test_passes_that_are_left_out_are_steps_as_any_other(counting: Counting) -> None:
    class Listener(PipelineObserver):
        heard: ClassVar[list[tuple[str, PassRun]]] = []

        def on_pass_end(self, module: Module, run: PassRun) -> None:
            self.heard.append(("pass", run))

        def on_step_end(self, module: Module, run: PassRun) -> None:
            self.heard.append(("step", run))

    pipeline = Pipeline((counting, counting, pass_class("while-loop-simplifier")()))
    pipeline.observe(Listener())
    pipeline.run(negations(2))
    assert len(Counting.runs) == 1
    names = ["counting", "counting", "while-loop-simplifier"]
    for kind in ("step", "pass"):
        runs = [run for heard, run in Listener.heard if heard == kind]
        assert [run.what.name for run in runs] == names
        assert [run.number for run in runs] == [0, 1, 2]
        assert not any(run.changed for run in runs)
        assert all(run.before == run.after == 3 for run in runs)
