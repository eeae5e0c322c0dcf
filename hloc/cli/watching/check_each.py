"""Checks after every pass: `--verify-each` and `--check-each`."""

from __future__ import annotations

from dataclasses import field

from hloc.cli.talk import Talk
from hloc.errors import HloError, InternalError
from hloc.ir.module import Module
from hloc.ir.verifier import verify
from hloc.lazy_dataclass import dataclass
from hloc.opt.pass_base import PassRun
from hloc.opt.pipeline import PipelineObserver, check_honest, text_of
from hloc.report.answers import (
    Answer,
    InputSet,
    Runner,
    answer_of,
    compiled,
    difference,
    input_sets,
    is_random,
    runner_for,
)
from hloc.report.text import plural


class VerifyEach(PipelineObserver):
    """Verifies the module after every pass that changed it; the fault names the pass."""

    def on_step_end(self, module: Module, run: PassRun) -> None:
        """Raise InternalError if the pass left an invalid module."""
        if run.changed:
            verify_after(module, text_of(run.what))


def verify_after(module: Module, what: str) -> None:
    """Raise InternalError if `module`, as pass `what` left it, is not valid."""
    try:
        verify(module)
    except HloError as fault:
        raise InternalError(f"pass {what} left an invalid module\n{fault}") from fault


@dataclass(slots=True, eq=False)
class CheckEach(PipelineObserver):
    """Runs the module before and after every pass that changed it and compares the answers.

    Inputs are random ones and special values (`input_sets`), without those that the module cannot
    be run on. A pass must also report correctly whether it changed something.

    Attributes:
        original: the module before all passes, run when a pass first changes something.
        special: compare on special values too; not under fast math.
    """

    talk: Talk
    original: Module
    seed: int = 0
    special: bool = True
    compared: int = 0
    _begun: bool = False
    _inputs: list[InputSet] = field(default_factory=list)
    _answers: list[Answer] = field(default_factory=list)
    _runner: Runner | None = None

    def on_step_end(self, module: Module, run: PassRun) -> None:
        """Raise InternalError if the pass changed a result, or misreported a change."""
        check_honest(run)
        if not run.changed:
            return
        if not self._begun:
            self._begun = True
            self._begin()
        if self._runner is not None:
            found = difference(module, self._inputs, self._answers, self._runner)
            if found:
                raise InternalError(f"pass {text_of(run.what)} changes the answer: {found}")
            self.compared += 1

    def _begin(self) -> None:
        """Run the module as it was read."""
        module = self.original
        if is_random(module):
            self.talk.say(
                "check-each: rng draws different numbers after a pass; results not compared"
            )
            return
        self._inputs = input_sets(module, self.seed, special=self.special)
        self._runner = runner_for(module)
        if self._runner is compiled:
            self.talk.say("check-each: too large for the evaluator; comparing code compiled at -O0")
        self._answers = [answer_of(module, given, self._runner) for given in self._inputs]
        for given, answer in zip(self._inputs, self._answers, strict=True):
            if answer is None:
                self.talk.say(f"check-each: the module does not run on {given.name}; skipped")

    def finish(self) -> None:
        """Say how many passes were checked."""
        if not self._begun:
            self.talk.say("check-each: no pass changed anything")
        elif self._runner is not None:
            sets = plural(sum(a is not None for a in self._answers), "input set")
            keep = "run of a pass keeps" if self.compared == 1 else "runs of passes keep"
            self.talk.say(f"check-each: {self.compared:,} {keep} the answer on {sets}")
