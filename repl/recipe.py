"""How a pass was run, so that it can be repeated and stopped after any of its rewrites.

Passes are deterministic: run again with a limit of k rewrites, a pass makes the same first k.
Single steps, breakpoints, lists of rewrites and the search for a wrong one are built on that.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from hloc.ir.clone import clone_module
from hloc.ir.events import Event
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.opt.pass_base import Pass, PassContext, Remark
from hloc.opt.pipeline import run_pass

OnRewrite = Callable[[Module, PassContext, str], None]


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """One run of a pass on a copy of a module.

    Attributes:
        rules: `pass/rule` of each rewrite, in order.
        marks: length of the change log after each rewrite.
        said_changed: what the pass returned.
    """

    module: Module
    context: PassContext
    rules: tuple[str, ...]
    marks: tuple[int, ...]
    said_changed: bool
    wall_ms: float

    @property
    def changed_nothing(self) -> bool:
        """True if the pass changed nothing: the module equals the one before."""
        return not (self.said_changed or self.rules or self.module.log.events)

    @property
    def events(self) -> tuple[Event, ...]:
        return tuple(self.module.log.events)

    def events_of(self, number: int) -> tuple[Event, ...]:
        """Return the events of rewrite `number`, counted from 1."""
        first = self.marks[number - 2] if number > 1 else 0
        return tuple(self.module.log.events[first : self.marks[number - 1]])

    def events_after(self, number: int) -> tuple[Event, ...]:
        """Return the events after the first `number` rewrites."""
        return tuple(self.module.log.events[self.marks[number - 1] if number else 0 :])


@dataclass(frozen=True, slots=True)
class Recipe:
    """A pass with everything that its result depends on besides the module.

    Attributes:
        highest_uid: instructions that the pass adds get uids above it.
    """

    what: Pass
    disabled_rules: frozenset[str]
    fast_math: bool
    highest_uid: int

    def run(
        self,
        module: Module,
        limit: int | None = None,
        on_rewrite: OnRewrite | None = None,
        remarks: list[Remark] | None = None,
        copy: Module | None = None,
    ) -> Replay:
        """Run the pass on a copy of `module`.

        Args:
            module: not changed.
            limit: stop after this many rewrites.
            on_rewrite: called after every rewrite; it may set `context.rewrite_limit` to stop.
            remarks: receives the remarks of the pass.
            copy: a copy of the module to transform; by default, a new one is made.
        """
        copy = copy or clone_module(module)
        copy.reserve_uids(self.highest_uid)
        context = PassContext(
            disabled_rules=self.disabled_rules,
            fast_math=self.fast_math,
            rewrite_limit=limit,
            remarks=remarks,
        )
        rules: list[str] = []
        marks: list[int] = []

        def rewritten(by: str) -> None:
            rules.append(by)
            marks.append(len(copy.log.events))
            if on_rewrite is not None:
                on_rewrite(copy, context, by)

        context.on_rewrite = rewritten
        started = time.perf_counter()
        changed = run_pass(self.what, copy, context)
        wall_ms = (time.perf_counter() - started) * 1e3
        return Replay(copy, context, tuple(rules), tuple(marks), changed, wall_ms)


def first_wrong(
    recipe: Recipe, module: Module, total: int, fault_of: Callable[[Module], str]
) -> tuple[int, str]:
    """Return the first of `total` rewrites after which something is wrong, and what.

    Args:
        recipe: the pass.
        module: the module before, which is right.
        total: number of rewrites after which it is known to be wrong.
        fault_of: describes what is wrong with a module, "" for nothing.
    """
    low, high, fault = 0, total, ""
    while high - low > 1:
        middle = (low + high) // 2
        found = fault_of(recipe.run(module, middle).module)
        low, high, fault = (low, middle, found) if found else (middle, high, fault)
    return high, fault or fault_of(recipe.run(module, high).module)
