"""The line at the bottom of the terminal: the current state, and the function keys.

Figures are computed on a thread of their own; drawing the line only reads them.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import field
from typing import TYPE_CHECKING

from hloc.analysis.call_graph import control_flow_computations
from hloc.analysis.dataflow import analyse_dataflow
from hloc.analysis.measure import Measure
from hloc.analysis.memory_peak import memory_facts, no_reuse, peak_of
from hloc.ir.clone import clone_module
from hloc.ir.computation import Computation
from hloc.ir.module import Module
from hloc.ir.print_order import instruction_order
from hloc.lazy_dataclass import dataclass
from hloc.opt.calls.flatten_call_graph import FlattenCallGraph
from hloc.opt.pass_base import PassContext
from hloc.quantities import duration, size_text
from hloc.report.text import cut, plural
from repl.state_diff import measure

if TYPE_CHECKING:
    from repl.session import Session
    from repl.state import State

_KEPT = 32


@dataclass(slots=True)
class Figures:
    """Costs of a state; None while unknown."""

    measure: Measure | None = None
    peak_bytes: int | None = None


@dataclass(slots=True)
class StatusLine:
    """Words for prompt and toolbar.

    Attributes:
        verified: the result of the last comparison of two states.
        multiline: Enter makes a new line (F3).
    """

    session: Session
    verified: dict[State, bool] = field(default_factory=dict)
    multiline: bool = False
    vi: bool = False
    _figures: dict[State, Figures] = field(default_factory=dict)

    def prepare(self) -> None:
        """Start computing the figures of the current state."""
        if not self.session.is_loaded or self.session.current in self._figures:
            return
        state = self.session.current
        while len(self._figures) >= _KEPT:
            del self._figures[next(iter(self._figures))]
        found = self._figures[state] = Figures()
        if state.is_valid:
            threading.Thread(
                target=_work_out, args=(state, found), name="hloc-figures", daemon=True
            ).start()

    def where(self) -> str:
        """Return module and state, `jit_f s3 algsimp`; an invalid state is marked."""
        if not self.session.is_loaded:
            return "hloc"
        state = self.session.current
        mark = "" if state.is_valid else "✗"
        doing = "" if state.parent is None else f" {_short(state.how)}"
        return f"{state.module.name} {state.label}{mark}{doing}"

    def badge(self) -> str:
        """Return `✓ verified`, `✗ invalid` and so on for the right side of the prompt."""
        if not self.session.is_loaded:
            return ""
        state = self.session.current
        if not state.is_valid:
            return "✗ invalid"
        if state in self.verified:
            return "✓ verified" if self.verified[state] else "✗ answers differ"
        return "as loaded" if state.parent is None else "not verified"

    def toolbar(self, width: int = 160, *, with_badge: bool = False) -> str:
        """Return the bottom line, with fewer words and then fewer parts if it is too long.

        Args:
            width: columns of the terminal.
            with_badge: include the badge, if there is no right prompt.
        """
        figures = [*self._figures_of_state(), *([self.badge()] if with_badge else [])]
        full = " · ".join([*figures, "  ".join(self._keys())])
        if len(full) <= width:
            return full
        keys = self._keys(brief=True)
        while keys and len(" · ".join([*figures, " ".join(keys)])) > width:
            keys.pop()
        while len(figures) > 1 and len(" · ".join(figures)) > width:
            figures.pop()
        line = " · ".join([*figures, *([" ".join(keys)] if keys else [])])
        return cut(line, width)

    def _figures_of_state(self) -> list[str]:
        """Return kernels, bytes, time and size."""
        if not self.session.is_loaded:
            return ["no module"]
        state = self.session.current
        figures = self._figures.get(state, Figures())
        parts = []
        if figures.measure is not None:
            kernels = plural(figures.measure.kernels, "kernel")
            parts += [kernels, size_text(figures.measure.cost.bytes)]
        if state in self.session.seconds:
            parts.append(duration(self.session.seconds[state]))
        parts.append(f"{state.instructions:,} instrs")
        if figures.peak_bytes is not None:
            parts.append(f"peak {size_text(figures.peak_bytes)}")
        return parts

    def _keys(self, brief: bool = False) -> list[str]:
        text = self.session.settings.text
        rows: list[tuple[str, str, str]] = [
            ("F2", "diff", text("diff")),
            ("F3", "multiline", "on" if self.multiline else "off"),
            ("F4", "", "vi" if self.vi else "emacs"),
            ("F5", "auto-verify", text("auto-verify")),
            ("F6", "names", text("names")),
        ]
        if brief:
            short = {"diff": "", "auto-verify": "verify", "names": ""}
            rows = [(key, short.get(name, name), value) for key, name, value in rows]
        return [f"{key} {name}{':' * bool(name)}{value}" for key, name, value in rows]


def _short(how: str) -> str:
    return how if len(how) <= 24 else how[:23] + "…"


def _work_out(state: State, found: Figures) -> None:
    with suppress(Exception):  # a figure that cannot be computed is not shown
        found.measure = measure(state)
        found.peak_bytes = peak_bytes(state.module)


def peak_bytes(module: Module) -> int:
    """Return the peak of live bytes, in the order of the text.

    Parameters, constants and results are not counted; nothing is overwritten in place.
    """
    copy = clone_module(module)
    FlattenCallGraph().run(copy, PassContext())  # dataflow needs one caller per computation
    dataflow = analyse_dataflow(copy)
    peaks: dict[Computation, int] = {}
    for computation in control_flow_computations(copy):
        facts = memory_facts(computation, dataflow, peaks)
        order = instruction_order(computation)
        peaks[computation] = peak_of(order, facts, no_reuse).size_bytes
    return peaks[copy.entry]
