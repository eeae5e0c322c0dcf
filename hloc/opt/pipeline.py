"""A pipeline: passes in order, with observers and crash reports.

Text form: `tuple-simplifier,fixpoint{limit=10}(algebraic-simplifier,dce),fusion{max-operands=8}`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field, replace
from functools import cache
from typing import ClassVar

from hloc.errors import HloError, InternalError
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import post_order
from hloc.lazy_dataclass import dataclass
from hloc.opt.pass_base import Pass, PassContext, pass_text
from hloc.opt.pass_base import PassRun as PassRun
from hloc.opt.pipeline_text import parse_passes


class PipelineObserver:
    """Observes every pass; dumps, timings, verification and displays are observers.

    A fixpoint is one pass; each run of a pass inside it is a step, as is a pass outside.
    """

    def on_pass_start(self, module: Module, number: int, what: Pass) -> None:
        """Called before pass `number` of the pipeline runs."""

    def on_pass_end(self, module: Module, run: PassRun) -> None:
        """Called after a pass of the pipeline has run."""

    def on_step_start(self, module: Module, number: int, what: Pass) -> None:
        """Called before step `number`."""

    def on_step_end(self, module: Module, run: PassRun) -> None:
        """Called after a step."""


@dataclass(frozen=True)
class Fixpoint:
    """Run passes in turn until a whole round changes nothing, at most `limit` rounds.

    Reaching the limit adds a warning that names the passes that still change something; the module
    is valid.
    """

    name: ClassVar[str] = "fixpoint"
    passes: tuple[Pass, ...]
    limit: int = 25

    def run(self, module: Module, context: PassContext) -> bool:
        """Run the rounds; True if any pass of any round changed something."""
        changed, quiet = False, 0
        if not self.passes:
            return False
        for _ in range(self.limit):
            before = context.fired.copy()
            for p in self.passes:
                quiet = 0 if run_pass(p, module, context) else quiet + 1
                changed = changed or not quiet
                if quiet == len(self.passes) or (not quiet and context.spent):
                    return changed
        busy = sorted((context.fired - before).items(), key=lambda item: (-item[1], item[0]))
        context.warnings.append(
            f"{self} still changes the module after {self.limit} rounds: "
            + ", ".join(f"{name} {count} times" for name, count in busy[:5])
        )
        return changed

    def __str__(self) -> str:
        limit = "" if self.limit == 25 else f"{{limit={self.limit}}}"
        return f"fixpoint{limit}({','.join(map(text_of, self.passes))})"


def text_of(p: Pass) -> str:
    """Return the text form of a pass, fixpoints included."""
    return str(p) if isinstance(p, Fixpoint) else pass_text(p)


def steps_of(passes: Iterable[Pass]) -> int:
    """Return the number of passes if each fixpoint takes one round."""
    return sum(steps_of(p.passes) if isinstance(p, Fixpoint) else 1 for p in passes)


@dataclass(frozen=True)
class Pipeline:
    """Passes in order.

    Attributes:
        check_changed: check each pass's return value against the change log; a mismatch is an
            internal error.
    """

    passes: tuple[Pass, ...] = ()
    check_changed: bool = False
    _observers: list[PipelineObserver] = field(default_factory=list, compare=False, repr=False)

    @staticmethod
    def parse(text: str, *, check_changed: bool = False) -> Pipeline:
        """Return the pipeline that `text` describes: `algsimp,dce,fusion{max-operands=8}`.

        Raises:
            HloError: an unknown pass or option, or an invalid text.
        """
        return Pipeline(parse_passes(text, Fixpoint), check_changed)

    @staticmethod
    def known(text: str) -> Pipeline:
        """Return the pipeline of a text in hloc's source; each is read once."""
        return Pipeline(_known_passes(text))

    def __str__(self) -> str:
        return ",".join(map(text_of, self.passes))

    def without(self, names: Iterable[str]) -> Pipeline:
        """Return this pipeline without the passes called `names`, inside fixpoints too."""
        left_out = frozenset(names)
        if not left_out:
            return self
        return Pipeline(_without(self.passes, left_out), self.check_changed, self._observers)

    def observe(self, observer: PipelineObserver) -> None:
        """Add `observer`, which sees every later pass."""
        self._observers.append(observer)

    def run(self, module: Module, context: PassContext | None = None) -> bool:
        """Run all passes over `module`; True if anything changed.

        Raises:
            InternalError: a pass crashed or misreported a change; the message says where.
            HloError: a pass refused the module.
        """
        if self._observers or self.check_changed:
            return any([run.changed for run in self.steps(module, context)])
        shared = context or PassContext()
        return any([run_pass(p, module, shared) for p in self.passes])

    def steps(self, module: Module, context: PassContext | None = None) -> Iterator[PassRun]:
        """Run the passes one by one, each when the next item is requested."""
        shared = context or PassContext()
        new = (o for o in self._observers if not any(o is known for known in shared.watchers))
        shared.watchers = (*shared.watchers, *new)
        for number, p in enumerate(self.passes):
            for observer in self._observers:
                observer.on_pass_start(module, number, p)
            run = _measured(number, p, module, shared, run_pass)
            if self.check_changed:
                check_honest(run)
            for observer in self._observers:
                observer.on_pass_end(module, run)
            yield run


@cache
def _known_passes(text: str) -> tuple[Pass, ...]:
    return parse_passes(text, Fixpoint)


def check_honest(run: PassRun) -> None:
    """Raise InternalError if a pass misreports whether it changed the module."""
    events = run.events[1] - run.events[0]
    if run.changed != (events > 0):
        raise InternalError(
            f"pass {text_of(run.what)} says {'changed' if run.changed else 'unchanged'}, "
            f"but the change log has {events} new events"
        )


def _measured(
    number: int,
    p: Pass,
    module: Module,
    context: PassContext,
    runner: Callable[[Pass, Module, PassContext], bool],
) -> PassRun:
    """Run `p` by `runner` and return a record of the run."""
    before, rewrites = module.instruction_count, context.rewrites
    mark = len(module.log.events)
    started = time.perf_counter()
    changed = runner(p, module, context)
    wall_ms = (time.perf_counter() - started) * 1e3
    events = (mark, len(module.log.events))
    rewrites = context.rewrites - rewrites
    return PassRun(number, p, changed, wall_ms, rewrites, before, module.instruction_count, events)


def _drop_broken_schedule(module: Module) -> None:
    """Clear the schedule of a module if a pass put users before their operands."""
    if module.config.is_scheduled and not all(map(_is_operands_first, module.computations)):
        module.set_config(replace(module.config, is_scheduled=False))


def _is_operands_first(computation: Computation) -> bool:
    seen: set[Instruction] = set()
    for inst in computation.instructions:
        if not all(before in seen for before in (*inst.operands, *inst.control_predecessors)):
            return False
        seen.add(inst)
    return True


def _without(passes: Sequence[Pass], names: frozenset[str]) -> tuple[Pass, ...]:
    kept: list[Pass] = []
    for p in passes:
        if p.name in names:
            continue
        if isinstance(p, Fixpoint):
            p = Fixpoint(_without(p.passes, names), p.limit)
        kept.append(p)
    return tuple(kept)


def run_pass(p: Pass, module: Module, context: PassContext) -> bool:
    """Run one pass; an exception becomes an `InternalError` that names the place.

    A pass that cannot change anything counts as a step, but is not run.
    """
    if isinstance(p, Fixpoint):
        return p.run(module, context)
    context.check_time()
    number, context.steps = context.steps, context.steps + 1
    if not context.watchers:
        return _run_if_needed(p, module, context)
    for watcher in context.watchers:
        watcher.on_step_start(module, number, p)
    run = _measured(number, p, module, context, _run_if_needed)
    for watcher in context.watchers:
        watcher.on_step_end(module, run)
    return run.changed


def _run_if_needed(p: Pass, module: Module, context: PassContext) -> bool:
    return not has_nothing_to_do(p, module, context) and _run_guarded(p, module, context)


def has_nothing_to_do(p: Pass, module: Module, context: PassContext) -> bool:
    """True if `p` cannot change anything: no opcode it acts on, or no change since its last run.

    On small modules most passes change nothing, and the time to find that out adds up.
    """
    now = _state(p, module)
    if context.settled.get(id(p)) == now:
        return True
    acts_on: frozenset[str] | None = getattr(p, "acts_on", None)
    if acts_on is None or not acts_on.isdisjoint(module.opcodes):
        return False
    context.settled[id(p)] = now
    return True


def _state(p: Pass, module: Module) -> tuple[Pass, Module, int]:
    """Return what decides whether `p` has something to do."""
    is_complete = getattr(p, "is_complete", False)
    return p, module, module.version - (module.removals if is_complete else 0)


def _run_guarded(p: Pass, module: Module, context: PassContext) -> bool:
    context.at, context.rule = None, ""
    warnings = len(context.warnings)
    with module.log.acting(p.name):
        try:
            changed = p.run(module, context)
        except (HloError, InternalError):
            raise
        except Exception as fault:
            raise InternalError(_explain(p, context, fault)) from fault
        if changed:
            _drop_broken_schedule(module)
    is_silent = context.remarks is None and len(context.warnings) == warnings
    is_done = not changed or getattr(p, "is_complete", False)
    if is_done and not context.spent and is_silent:
        context.settled[id(p)] = _state(p, module)
    return changed


def _explain(p: Pass, context: PassContext, fault: Exception) -> str:
    lines = [f"pass {text_of(p)} failed: {type(fault).__name__}: {fault}"]
    if context.rule:
        lines.append(f"rewrite: {context.rule}")
    if context.at is not None:
        lines.append(f"instruction: {context.at.name} in {context.at.computation.name}")
        lines += _surroundings(context.at)
    return "\n".join(lines)


def _surroundings(at: Instruction, lines: int = 10) -> list[str]:
    """Return about `lines` instructions around `at`, in print order, `at` marked."""
    computation: Computation = at.computation
    order = post_order(computation) if at in computation else [*at.operands, at]
    place = order.index(at)
    first = max(0, place - lines // 2)
    return [f"{'->' if inst is at else '  '} {inst!r}" for inst in order[first : first + lines + 1]]
