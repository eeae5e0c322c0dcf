"""The pipeline: observers, counts, honest answers, limits, and how a fault in a pass looks."""

from dataclasses import dataclass
from typing import ClassVar

import pytest

import hloc
from hloc.errors import InternalError
from hloc.ir.module import Module
from hloc.opt.pass_base import Pass, PassContext
from hloc.opt.pipeline import Fixpoint, PassRun, Pipeline, PipelineObserver
from tests.unit.opt.modules import negations


@dataclass(frozen=True)
class Breaks:
    """Fails while it looks at an instruction."""

    name: ClassVar[str] = "breaks"

    def run(self, module: Module, context: PassContext) -> bool:
        context.at = module.entry.root
        with context.rewriting(module, "breaks/some-rule"):
            raise ZeroDivisionError("no luck")


@dataclass(frozen=True)
class Lies:
    """Changes the module and says it did not."""

    name: ClassVar[str] = "lies"

    def run(self, module: Module, context: PassContext) -> bool:
        module.entry.rename(module.entry.root, "other")
        return False


@dataclass(frozen=True)
class Restless:
    """Always has something to do."""

    name: ClassVar[str] = "restless"

    def run(self, module: Module, context: PassContext) -> bool:
        with context.rewriting(module, self.name):
            module.entry.rename(module.entry.root, "other")
        return True


class Listener(PipelineObserver):
    def __init__(self) -> None:
        self.heard: list[str] = []
        self.runs: list[PassRun] = []

    def on_pass_start(self, module: Module, number: int, what: Pass) -> None:
        self.heard.append(f"{number} {what.name}")

    def on_pass_end(self, module: Module, run: PassRun) -> None:
        self.runs.append(run)


def test_observers_hear_of_every_pass_with_counts() -> None:
    pipeline = Pipeline.parse("cse,algebraic-simplifier,dce")
    listener = Listener()
    pipeline.observe(listener)
    assert pipeline.run(negations(5))
    assert listener.heard == ["0 cse", "1 algebraic-simplifier", "2 dce"]
    assert [run.changed for run in listener.runs] == [False, True, False]
    simplify = listener.runs[1]
    assert (simplify.before, simplify.after) == (6, 2)
    assert simplify.rewrites == 2
    assert simplify.wall_ms > 0


def test_steps_run_one_pass_at_a_time() -> None:
    module = negations(2)
    steps = Pipeline.parse("dce,algebraic-simplifier").steps(module)
    assert not next(steps).changed
    assert module.instruction_count == 3
    assert next(steps).changed
    assert module.instruction_count == 1


def test_a_rewrite_limit_stops_in_the_middle() -> None:
    module = negations(6)
    context = PassContext(rewrite_limit=1)
    Pipeline.parse("algebraic-simplifier,dce").run(module, context)
    assert context.rewrites == 1
    assert module.instruction_count == 5


def test_a_disabled_rule_does_not_fire() -> None:
    context = PassContext(disabled_rules=frozenset({"negate-negate"}))
    assert not Pipeline.parse("algebraic-simplifier").run(negations(4), context)


def test_every_change_names_its_rule() -> None:
    module = negations(2)
    Pipeline.parse("algebraic-simplifier").run(module)
    assert {event.by for event in module.log.events} == {"algebraic-simplifier/negate-negate"}


def test_a_fault_says_pass_rewrite_and_instruction() -> None:
    with pytest.raises(InternalError) as caught:
        Pipeline((Breaks(),)).run(negations(30))
    message = str(caught.value)
    assert "pass breaks failed: ZeroDivisionError: no luck" in message
    assert "rewrite: breaks/some-rule" in message
    assert "instruction: negate.29 in entry" in message
    assert "-> negate.29 = f32[4]{0} negate(negate.28)" in message
    assert len(message.splitlines()) < 15


def test_a_pass_that_lies_is_found_out() -> None:
    with pytest.raises(InternalError, match="pass lies says unchanged, but the change log has 1"):
        Pipeline((Lies(),), check_changed=True).run(negations(1))


def test_a_fixpoint_that_does_not_settle_warns() -> None:
    context = PassContext()
    assert Fixpoint((Restless(),), limit=3).run(negations(1), context)
    assert context.warnings == [
        "fixpoint{limit=3}(restless) still changes the module after 3 rounds: restless 1 times"
    ]


def test_a_fixpoint_settles_without_warning() -> None:
    context = PassContext()
    module = negations(7)
    assert Pipeline.parse("fixpoint(algebraic-simplifier,dce)").run(module, context)
    assert module.instruction_count == 2
    assert context.warnings == []


SCHEDULED = """HloModule m, is_scheduled=true

ENTRY e {
  x = f32[4] parameter(0)
  o = f32[4] constant({1, 2, 3, 4})
  a = f32[4] negate(x)
  b = f32[4] subtract(o, a)
  ROOT r = f32[4] negate(b)
}
"""


def test_a_schedule_that_a_pass_breaks_is_dropped() -> None:
    module = hloc.parse(SCHEDULED)
    Pipeline.parse("algebraic-simplifier").run(module)
    assert not module.config.is_scheduled
    hloc.parse(str(module))


def test_a_schedule_that_passes_keep_stays() -> None:
    module = hloc.parse(SCHEDULED)
    Pipeline.parse("cse,dce").run(module)
    assert module.config.is_scheduled


def test_fix_is_short_for_fixpoint() -> None:
    short = Pipeline.parse("fix{limit=3}(cse,fix(dce))")
    assert str(short) == "fixpoint{limit=3}(cse,fixpoint(dce))"


def test_an_empty_fixpoint_does_nothing() -> None:
    context = PassContext()
    assert not Pipeline.parse("fixpoint()").run(negations(2), context)
    assert context.warnings == []


def test_passes_can_be_left_out_of_fixpoints_too() -> None:
    pipeline = Pipeline.parse("dce,fixpoint(cse,dce)")
    assert str(pipeline.without(["dce"])) == "fixpoint(cse)"


def test_long_chains_are_no_trouble() -> None:
    module = negations(20_001)
    Pipeline.parse("cse,algebraic-simplifier,dce,fusion").run(module)
    assert module.instruction_count == 2
