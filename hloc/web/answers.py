"""The answers of a child process to the questions of the page, as JSON values.

An answer depends only on the text, the pipeline (or the dump) and the state. Caches never change
one, so a child can be ended and restarted at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias

from hloc import driver
from hloc.analysis.diff.diff_rows import KIND_WORDS
from hloc.analysis.diff.rewrite_text import describe_rewrite
from hloc.errors import HloError, printable
from hloc.opt.registry import canonical_name
from hloc.pictures.changes import changes_between
from hloc.pictures.page import page
from hloc.pictures.places import BOXES_AT_START
from hloc.pictures.scene import scene_of
from hloc.report.describe import all_rules, pass_summaries, rule_data
from hloc.report.diff.diff_cells import diff_cells
from hloc.report.inputs import result_leaves
from hloc.report.json_report import diagnostic_data
from hloc.report.measure_text import effect_text
from hloc.report.run_inputs import Inputs
from hloc.report.source_input import read_module
from hloc.web.array_files import given_file, results_file
from hloc.web.charts import memory_view, roofline_view
from hloc.web.comparison import comparison
from hloc.web.kernels import kernel_view
from hloc.web.limits import (
    GRAPH_INSTRUCTIONS,
    MOST_DIAGNOSTICS,
    MOST_REWRITES,
    PART_SECONDS,
    SHOWN_BYTES,
    TEXT_BYTES,
    WALK_SECONDS,
)
from hloc.web.replays import begin_replay
from hloc.web.run_inputs import inputs_of
from hloc.web.walks import Walked, Walks
from repl.looking import cost_table
from repl.lowering import emitted
from repl.render import rendered_text
from repl.rules import rule_place
from repl.running import run
from repl.session import Session
from repl.state import State
from repl.state_diff import compared
from repl.verifying import verify_states

Data: TypeAlias = dict[str, Any]

FORMS = ("hlo", "schedule", "llvm-ir", "llvm-ir-opt", "asm")
"""Texts of a state that the page shows."""

_OF_STATE: dict[str, Callable[[Walked, State, Data], Data]] = {
    "memory": memory_view,
    "roofline": roofline_view,
    "kernel": kernel_view,
    "compare": comparison,
}


class Answerer:
    """Answers questions; caches the states of the last few modules."""

    def __init__(self, walks: Walks | None = None) -> None:
        self._walks = walks or Walks(limit=WALK_SECONDS)
        self._table: dict[str, Callable[[Data], Data]] = {
            "open": self._open,
            "check": self._check,
            "walk": self._walk,
            "rewrites": self._rewrites,
            "state": self._state,
            "text": self._text,
            "graph": self._graph,
            "run": self._run,
            "verify": self._verify,
            "cost": self._cost,
            **{name: partial(self._view, view) for name, view in _OF_STATE.items()},
        }

    def answer(self, question: Data) -> Data:
        """Return the answer; diagnostics of an error are in `faults`."""
        try:
            return self._table[question["ask"]](question)
        except HloError as fault:
            return {"faults": _faults(fault)}

    def _open(self, question: Data) -> Data:
        """Return a module in a file of any format as text."""
        text = read_module(question["path"], verify=False).to_text(large_constants=True)
        if len(text.encode(errors="surrogateescape")) > TEXT_BYTES:
            raise HloError(f"the module has more than {TEXT_BYTES >> 20} MiB of text")
        return {"text": text}

    def _check(self, question: Data) -> Data:
        module = driver.parse_text(question["text"], name="module")
        return {
            "name": printable(module.name),
            "instructions": module.instruction_count,
            "computations": len(module.computations),
        }

    def _walk(self, question: Data) -> Data:
        """Return the passes that have run so far, without the first `known`."""
        walked = self._of(question)
        walked.advance(PART_SECONDS)
        return {
            "name": printable(walked.session.states[0].module.name),
            "first": walked.first,
            "passes": walked.passes[max(0, question["known"]) :],
            "notes": walked.notes,
            "done": walked.is_done,
        }

    def _rewrites(self, question: Data) -> Data:
        """Return the rewrites of the pass that led to a state."""
        number = question["state"]
        walked = self._of(question)
        walked.state(number)
        whole = walked.whole(number)
        rows = [
            {"by": by, "at": printable(describe_rewrite(whole.events_of(i)).at)}
            for i, by in enumerate(whole.rules[:MOST_REWRITES], 1)
        ]
        return {"rewrites": rows, "total": len(whole.rules)}

    def _state(self, question: Data) -> Data:
        """Return the pass of a state, and the diff to the previous state or to the first."""
        walked, state = self._at(question)
        before = walked.session.states[0] if question["whole"] else walked.before(state)
        shown = compared(before, state)
        return {
            "summary": shown.table.summary(),
            "effect": effect_text(*shown.measures, "→"),
            "instructions": [before.instructions, state.instructions],
            "faults": [printable(fault) for fault in state.faults],
            "rules": [_rule_data(by, count) for by, count in state.rewrites],
            "about": _about(state),
            "rows": diff_cells(shown.table),
            "marks": KIND_WORDS,
        }

    def _text(self, question: Data) -> Data:
        """Return a state as text: HLO, or a later form."""
        walked, state = self._at(question)
        form = question["form"]
        if form not in FORMS:
            raise HloError(f"expected one of {', '.join(FORMS)}")
        if form == "hlo":
            text = state.module.to_text(style="short")
        else:
            text = emitted(walked.go_to(state), form)
        return {"text": text[:SHOWN_BYTES], "left": max(0, len(text) - SHOWN_BYTES)}

    def _graph(self, question: Data) -> Data:
        walked, state = self._at(question)
        if state.instructions > GRAPH_INSTRUCTIONS:
            raise HloError(
                f"the module has {state.instructions:,} instructions; "
                f"graphs are drawn up to {GRAPH_INSTRUCTIONS:,}"
            )
        before = walked.before(state)
        changes = changes_between(
            before.module, state.module, walked.session.diff_of(before, state, state.events)
        )
        scene = scene_of(state.module.entry, None, changes)
        return {"html": page(scene, BOXES_AT_START)}

    def _run(self, question: Data) -> Data:
        """Compile and run a state, and compare with the original module."""
        walked, state = self._at(question)
        session = walked.go_to(state)
        module, seed = session.origin.module, question["seed"]
        with given_file(question["file"], question["data"]) as file:
            inputs = inputs_of(question["inputs"], seed, module, file)
            with _inputs_of(session, inputs):
                found = run(session)
        ok = found.comparison is None or found.comparison.ok
        results = results_file(found.outputs, result_leaves(state.module))
        return {"ok": ok, "text": rendered_text(found), "results": results}

    def _verify(self, question: Data) -> Data:
        walked, state = self._at(question)
        session = walked.session
        with _inputs_of(session, Inputs(seed=question["seed"])):
            found = verify_states(session, session.states[0], state)
        return {"ok": found.ok, "text": rendered_text(found)}

    def _cost(self, question: Data) -> Data:
        """Return operations and bytes by instruction."""
        _, state = self._at(question)
        table = cost_table(state.module)
        return {
            "title": table.title,
            "heads": list(table.heads),
            "rows": [[printable(cell) for cell in row] for row in table.rows],
        }

    def _view(self, view: Callable[[Walked, State, Data], Data], question: Data) -> Data:
        return view(*self._at(question), question)

    def _of(self, question: Data) -> Walked:
        dump: tuple[str, str] | None = question.get("replayed")
        if dump is not None:
            return self._walks.kept(("", *dump), partial(begin_replay, *dump))
        return self._walks.of(question["text"], question["pipeline"])

    def _at(self, question: Data) -> tuple[Walked, State]:
        walked = self._of(question)
        return walked, walked.state(question["state"], question["rewrite"])


@contextmanager
def _inputs_of(session: Session, inputs: Inputs) -> Iterator[None]:
    """Give `session` inputs while the context lasts; a file of them is not kept any longer."""
    before = session.inputs
    session.inputs = inputs
    try:
        yield
    finally:
        session.inputs = before


def _faults(fault: HloError) -> list[Data]:
    found = fault.diagnostics[:MOST_DIAGNOSTICS]
    rows = [{**diagnostic_data(d), "text": d.render()} for d in found]
    left = len(fault.diagnostics) - len(rows)
    if left > 0:
        rows.append(diagnostic_data(HloError(f"and {left:,} more").diagnostics[0]))
    return rows


def _rule_data(by: str, count: int) -> Data:
    """Return a rule that fired with its law, or a pass without rules."""
    name = by.partition("/")[2]
    rule = next((rule for rule in all_rules() if rule.name == name), None) if name else None
    data = {"by": by, "count": count, "place": rule_place(by)}
    if rule is None:
        return data
    row = rule_data(rule)
    return {**data, "law": row["law"], "proof": row["proof"]}


def _about(state: State) -> str:
    """Return the summary of the pass that led to a state."""
    if state.recipe is None:
        return ""
    name = canonical_name(state.recipe.what.name)
    return next((text for known, text in pass_summaries() if known == name), "")
