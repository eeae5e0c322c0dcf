"""hloc's rules and passes in JAX's own compilations: `with hloc.jax.passes(my_rule): train()`."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from hloc.errors import HloError
from hloc.ir.events import Event
from hloc.ir.module import Module
from hloc.jax.hook import CompilationHook, Stage
from hloc.lazy_dataclass import dataclass
from hloc.opt.authoring import ModulePass
from hloc.opt.authoring import Pass as AuthoredPass
from hloc.opt.pass_base import Pass, PassContext
from hloc.opt.pipeline import Pipeline
from hloc.opt.rule import Rule


@dataclass(frozen=True, slots=True)
class TransformedModule:
    """The effect of the passes on one module that XLA compiled.

    Attributes:
        name: name of the module, `jit_train`.
        before, after: number of instructions.
        fired: how often each `pass/rule` changed something.
        wall_ms: time of parsing, passes, checks and serialization.
    """

    name: str
    before: int
    after: int
    fired: Counter[str]
    wall_ms: float

    def __str__(self) -> str:
        rules = ", ".join(f"{by} {times}" for by, times in sorted(self.fired.items()))
        return f"{self.name}: {self.before} -> {self.after} instructions; {rules or 'no rewrite'}"


def passes(
    *what: Rule | AuthoredPass | Pass | type[Any] | Pipeline | str,
    fast_math: bool = False,
    platforms: str | Sequence[str] | None = None,
    stage: Stage = "pre-scheduler",
) -> PassScope:
    """Return a scope in which `what` runs on every module that XLA compiles for JAX.

    Args:
        what: rules, passes, plug-in passes, or text as for `--passes`: `"algsimp,cse"`. They run in
            this order. A rule that is named here fires even if it is not exact.
        fast_math: allow rules that are not exact inside passes.
        platforms: `"cpu"`, `"gpu"`, `"tpu"`; all of JAX's platforms by default.
        stage: "pre-scheduler", after XLA's own passes, or "post-scheduler".

    Returns:
        A reentrant context manager. Functions that JAX compiled outside are compiled
        again inside, and vice versa, but only once per scope. Scopes nest; the passes of the outer
        one run first. Compilations of other threads are affected too.

    Raises:
        HloError: `what` is not a pass; jax or protobuf is missing, or jax is too old. On
            exit of the scope: a pass failed or created an invalid module, so the compilation
                failed.
    """
    return PassScope(tuple(_passes_of(what)), fast_math, platforms, stage)


def _passes_of(what: Sequence[Any]) -> Iterator[Pass]:
    for is_rule, group in itertools.groupby(what, lambda item: isinstance(item, Rule)):
        if is_rule:  # named by the caller, who decides on its exactness
            rules = [replace(rule, exactness="exact") for rule in group]
            yield AuthoredPass("rules", rules).as_class()()
            continue
        for item in group:
            yield from _passes_of_item(item)


def _passes_of_item(item: Any) -> Sequence[Pass]:
    if isinstance(item, str):
        return Pipeline.parse(item).passes
    if isinstance(item, Pipeline):
        return item.passes
    if isinstance(item, AuthoredPass):
        return (item.as_class()(),)
    instance = item() if isinstance(item, type) and issubclass(item, ModulePass) else item
    if not isinstance(instance, type) and isinstance(instance, Pass):
        return (instance,)
    shown = getattr(item, "__name__", None) or repr(item)
    raise HloError(
        f"expected a rule, a pass or the text of passes, but got {shown}",
        notes=("put @rule(pattern) above a function, see docs/writing-a-pass.md",),
    )


class PassScope:
    """A context in which passes run on every module that XLA compiles.

    Attributes:
        modules: their effects so far, one entry per module.
    """

    def __init__(
        self,
        what: tuple[Pass, ...],
        fast_math: bool,
        platforms: str | Sequence[str] | None,
        stage: Stage,
    ) -> None:
        self.modules: list[TransformedModule] = []
        self._pipeline = Pipeline(what)
        self._fast_math = fast_math
        self._hook = CompilationHook(self._transformed, platforms, stage)

    @property
    def fired(self) -> Counter[str]:
        """How often each `pass/rule` changed something, over all modules."""
        return sum((module.fired for module in self.modules), Counter())

    def __enter__(self) -> PassScope:
        self._hook.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._hook.__exit__(*raised)

    def _transformed(self, module: Module) -> tuple[Module, Sequence[Event]] | None:
        """Run the passes on `module`; None if they change nothing."""
        started = time.perf_counter()
        before = module.instruction_count
        context = PassContext(fast_math=self._fast_math)
        changed = self._pipeline.run(module, context)
        wall_ms = (time.perf_counter() - started) * 1e3
        self.modules.append(
            TransformedModule(module.name, before, module.instruction_count, context.fired, wall_ms)
        )
        return (module, tuple(module.log.events)) if changed else None
