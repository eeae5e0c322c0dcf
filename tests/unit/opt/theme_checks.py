"""Passes on drawn modules: the evaluator's answers are the same before and after."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import hypothesis.strategies as st
from hypothesis import HealthCheck, given, note, settings

import hloc
from fuzz.agreement import Array, disagreement
from fuzz.choices import T
from fuzz.draft import Draft
from hloc.dtypes import DType
from hloc.ir.clone import clone_module
from hloc.ir.module import Module
from hloc.ir.verifier import verify
from hloc.opt.pass_base import PassContext
from hloc.opt.pipeline import Pipeline
from tests.differential.drawn import Drawn

QUICK = settings(
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
    ],
)


@dataclass
class BiasedDraft(Draft):
    """A draft that takes one element type wherever it may."""

    preferred: DType | None = None

    def pick(self, options: Sequence[T]) -> T:
        """Return the preferred type, if it is one of the options."""
        for option in options:
            if option is self.preferred:
                return option
        return super().pick(options)

    def some_types(self, types: Sequence[DType], most: int) -> list[DType]:
        """Return the preferred type, if it is one of `types`."""
        if self.preferred in types:
            return [self.pick(types)]
        return super().some_types(types, most)


def check_many(
    passes: str,
    draw: Callable[[Draft], str],
    how: str = "",
    *,
    preferred: DType | None = None,
    examples: int = 15,
) -> None:
    """Draw many modules; `passes` must keep the results of all and change at least one.

    `how` says how results are compared, if not as the drawer says.
    """
    fired = []

    @settings(QUICK, max_examples=examples)
    @given(data=st.data())
    def run(data: st.DataObject) -> None:
        draft = BiasedDraft(Drawn(data.draw), preferred=preferred)
        drawn_how = draw(draft)
        module = draft.finish()
        note(f"arguments: {draft.arguments!r}")
        fired.append(check(module, passes, draft.arguments, how or drawn_how))

    run()
    assert any(fired), f"{passes} never did anything"


def check(module: Module, passes: str, arguments: Sequence[Array], how: str) -> bool:
    """Run `passes` on a copy of `module` and compare the answers."""
    note(module.to_text("short"))
    want = hloc.evaluate(module, *arguments)
    copy = clone_module(module)
    changed = Pipeline.parse(passes, check_changed=True).run(copy, PassContext())
    verify(copy)
    note(copy.to_text("short"))
    for number, (g, w) in enumerate(zip(hloc.evaluate(copy, *arguments), want, strict=True)):
        fault = disagreement(g, w, how)
        assert fault is None, f"output {number}: {fault}"
    return changed
