"""The widget of `hloc.slider`. Importing it needs anywidget."""

from __future__ import annotations

from typing import Any

import anywidget
import traitlets

from hloc.ir.module import Module
from hloc.notebook.page_code import script, style
from hloc.notebook.pass_states import PassStates
from hloc.web.highlighting import highlighting


class PassSlider(anywidget.AnyWidget):
    """A slider over the states of a module after each pass.

    Attributes:
        state: number of the state that is shown, 0 for the module as it was given.
        steps: the pass that made each state.
        answer: the data shown for the state.
    """

    _esm = script()
    _css = style()
    state = traitlets.Int(0).tag(sync=True)
    steps = traitlets.List().tag(sync=True)
    answer = traitlets.Dict().tag(sync=True)
    highlighting = traitlets.Dict().tag(sync=True)

    def __init__(self, states: PassStates) -> None:
        self._states = states
        super().__init__(steps=states.steps, answer=states.answer(0), highlighting=highlighting())

    @property
    def module(self) -> Module:
        """The module at the state that is shown."""
        return self._states.module(self.state)

    @traitlets.validate("state")
    def _bounded(self, proposal: dict[str, Any]) -> int:
        return max(0, min(int(proposal["value"]), len(self.steps) - 1))

    @traitlets.observe("state")
    def _show(self, change: dict[str, Any]) -> None:
        self.answer = self._states.answer(change["new"])
