"""The states of the slider: a module after each pass."""

from __future__ import annotations

from math import inf
from typing import Any

from hloc.ir.module import Module
from hloc.web.answers import Answerer, Data
from hloc.web.questions import read_question
from hloc.web.walks import Walks


class PassStates:
    """A module and its state after each pass.

    Args:
        module: it is not changed.
        passes: a level or passes.

    Attributes:
        steps: the input and the passes that changed something, as the page has them; state i is
            the module after step i.

    Raises:
        HloError: a pass does not exist, or fails.
    """

    def __init__(self, module: Module, passes: str) -> None:
        self._walks = Walks()
        self._answerer = Answerer(self._walks)
        self._question = {"text": module.to_text(large_constants=True), "pipeline": passes}
        walked = self._walks.of(**self._question)
        walked.advance(inf)
        if walked.fault is not None:
            raise walked.fault
        changed = [step for step in walked.passes if step["state"] is not None]
        self.steps: list[Data] = [{"pass": "input", "state": 0}, *changed]

    def answer(self, state: int) -> Data:
        """Return the pass of a state, and its diff to the state before."""
        return {**self._ask("state", state), "state": state}

    def module(self, state: int) -> Module:
        """Return the module at a state."""
        return self._walks.of(**self._question).state(state).module

    def _ask(self, what: str, state: int) -> dict[str, Any]:
        return self._answerer.answer(read_question({"ask": what, "state": state, **self._question}))
