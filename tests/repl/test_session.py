"""The session without a terminal: states, passes, time travel, questions, runs."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import hloc
from hloc.analysis.diff.module_diff import ADDED, REMOVED, ModuleDiff
from hloc.analysis.diff.provenance import Origin, trace
from hloc.ir.module import Module
from hloc.ir.verifier import verify
from hloc.opt.pass_base import PassContext
from hloc.opt.pipeline import Pipeline
from hloc.opt.pipelines import pipeline_for
from repl.applying import follow, run_one
from repl.commands import execute
from repl.passes import Applied, effect_of, recipe_for
from repl.running import run
from repl.session import Session
from repl.state import path
from repl.stepping import step
from repl.verifying import verify as verify_answers
from repl.walk import Walk

TEXT = """HloModule m

double {
  p = f32[4] parameter(0)
  ROOT s = f32[4] add(p, p)
}

ENTRY e {
  x = f32[4] parameter(0), metadata={op_name="f/x" source_file="model.py" source_line=57}
  y = f32[4] parameter(1)
  n = f32[4] negate(x)
  nn = f32[4] negate(n)
  a = f32[4] add(nn, y)
  b = f32[4] add(nn, y)
  c = f32[4] call(b), to_apply=double
  ROOT r = f32[4] multiply(a, c)
}
"""


@pytest.fixture
def session() -> Iterator[Session]:
    session = Session()
    session.load_text(TEXT)
    yield session
    session.close()


def apply(session: Session, text: str) -> list[object]:
    pipeline = Pipeline.parse(text) if text != "-O2" else pipeline_for(2)
    return list(follow(session, Walk.of(text, pipeline.passes)))


def diff(session: Session, before: str, after: str) -> ModuleDiff:
    old, new = session.state(before), session.state(after)
    events = [event for state in path(old, new) for event in state.events]
    return session.diff_of(old, new, events)


def why(session: Session, name: str) -> Origin:
    return trace(session.lineage(), name)


def test_passes_make_states_and_leave_older_ones_alone(session: Session) -> None:
    before = session.current.module.to_text()
    applied = apply(session, "call-inliner,map-inliner,cse,dce")
    labels = [a.state and a.state.label for a in applied if isinstance(a, Applied)]
    assert labels == ["s1", None, "s2", "s3"]
    assert [state.how for state in session.states] == ["load", "call-inliner", "cse", "dce"]
    assert session.states[0].module.to_text() == before
    assert session.current.label == "s3"
    for state in session.states:
        verify(state.module)


def test_the_result_is_what_the_pipeline_makes_at_once(session: Session) -> None:
    apply(session, "-O2")
    module = hloc.parse(TEXT)
    pipeline_for(2).run(module)
    assert session.current.module.to_text("canonical") == module.to_text("canonical")


def test_undo_and_redo_walk_the_tree(session: Session) -> None:
    apply(session, "call-inliner,cse,dce")
    assert session.tree.undo(2).label == "s1"
    assert session.tree.redo().label == "s2"
    assert session.tree.undo(2).label == "s0"
    apply(session, "dce,algebraic-simplifier")
    assert session.current.parent is session.states[0]
    assert session.tree.undo().label == "s0"
    assert session.tree.redo().label == "s4", "redo takes the branch that was undone last"
    assert session.tree.goto("s3").label == "s3"
    with pytest.raises(hloc.HloError, match="there are only 3 states to undo"):
        session.tree.undo(9)
    with pytest.raises(hloc.HloError, match="nothing to redo"):
        session.tree.redo()
    assert session.current.label == "s3", "a failed move leaves the session where it was"


def test_history_shows_branches(session: Session) -> None:
    apply(session, "call-inliner")
    session.tree.undo()
    apply(session, "cse")
    found = [(e.state.label, e.depth, e.is_current) for e in session.tree.entries()]
    assert found == [("s0", 0, False), ("s2", 1, True), ("s1", 0, False)]


def test_steps_do_one_rewrite_each_and_end_where_the_pass_ends(session: Session) -> None:
    apply(session, "call-inliner")
    whole = Session()
    whole.load_text(TEXT)
    apply(whole, "call-inliner,cse")
    steps = 0
    while step(session, "" if steps else "cse").state is not None:
        steps += 1
        assert session.current.rewrite_count == 1
        assert steps < 50
    assert steps >= 1
    assert session.current.module.to_text() == whole.current.module.to_text()


def test_uids_are_never_used_again_after_undo(session: Session) -> None:
    """Two branches that each add instructions must not be taken for each other."""
    apply(session, "call-inliner")
    first = {i.uid for c in session.current.module.computations for i in c.instructions}
    session.tree.undo()
    apply(session, "call-inliner")
    second = {i.uid for c in session.current.module.computations for i in c.instructions}
    old = {i.uid for c in session.states[0].module.computations for i in c.instructions}
    assert first & second <= old
    found = diff(session, "s1", "s2")
    assert found.count(ADDED) == found.count(REMOVED) > 0


def test_a_diff_over_several_states_names_the_rules(session: Session) -> None:
    apply(session, "algebraic-simplifier,cse,dce")
    found = diff(session, "s0", "$")
    causes = {row.by for c in found.computations for row in c.rows if row.by}
    assert causes == {"algebraic-simplifier/negate-negate", "cse"}
    assert diff(session, "s0", "s0").is_empty


def test_states_are_named(session: Session) -> None:
    apply(session, "cse")
    assert session.state("prev").label == "s0"
    assert session.state("$").label == session.state("1").label == "s1"
    with pytest.raises(hloc.HloError, match="there is no state 's7'; states are s0 to s1"):
        session.state("s7")
    session.tree.undo()
    with pytest.raises(hloc.HloError, match="no earlier state"):
        session.state("prev")


def test_why_shows_source_line_and_rules(session: Session) -> None:
    apply(session, "algebraic-simplifier,cse,dce")
    origin = why(session, "a")
    assert (origin.text_line, origin.is_live) == (13, True)
    by = [(c.state, c.by) for c in origin.causes]
    assert by[0] == ("s1", "algebraic-simplifier/negate-negate")
    assert by[-1] == ("s2", "cse")
    assert any("nn → x" in cause.text for cause in origin.causes)
    assert why(session, "x").source == "model.py:57"
    gone = why(session, "b")
    assert not gone.is_live
    assert any("replaced by a" in cause.text for cause in gone.causes)
    with pytest.raises(hloc.HloError, match="no instruction is or was named 'zz'"):
        why(session, "zz")


def test_names_are_found_or_guessed(session: Session) -> None:
    assert session.find("%nn").opcode.name == "negate"
    assert session.find_computation("@double").name == "double"
    with pytest.raises(hloc.HloError, match="did you mean 'nn'"):
        session.find("nnn")


def test_effects_try_passes_without_changing_anything(session: Session) -> None:
    effect = effect_of(session, "algebraic-simplifier", "")
    assert effect.rewrites == 1
    assert len(session.states) == 1
    assert not session.current.module.log.events


@pytest.mark.parametrize("interpret", [False, True])
def test_runs_compare_with_the_loaded_module(session: Session, interpret: bool) -> None:
    apply(session, "-O2")
    result = run(session, interpret=interpret)
    assert result.comparison is not None
    assert result.comparison.ok
    assert len(result.outputs) == 1


def test_a_wrong_state_is_found_by_run_and_verify(session: Session) -> None:
    module = session.states[0].module

    @dataclass(frozen=True)
    class Breaks:
        name: ClassVar[str] = "breaks"

        def run(self, module: Module, context: PassContext) -> bool:
            (a,) = (i for i in module.entry.instructions if i.name == "a")
            with context.rewriting(module, "breaks"):
                module.entry.replace(a, module.entry.parameters[0])
            return True

    assert module.log.recording
    run_one(session, session.current, recipe_for(session, Breaks()))
    assert not verify_answers(session).ok
    comparison = run(session).comparison
    assert comparison is not None
    assert not comparison.ok


def test_inputs_come_from_a_seed_or_a_file(session: Session, tmp_path: Path) -> None:
    session.inputs.seed = 3
    first = run(session).outputs[0]
    session.inputs.seed = 4
    assert not np.array_equal(first, run(session).outputs[0])
    path = str(tmp_path / "in.npz")
    np.savez(path, arg0=np.ones(4, np.float32), arg1=np.ones(4, np.float32))
    session.inputs.use_file(path, session.current.module)
    np.testing.assert_array_equal(run(session).outputs[0], np.full(4, 8, np.float32))
    np.savez(path, arg0=np.ones(3, np.float32))
    with pytest.raises(hloc.HloError, match="expected f32"):
        session.inputs.use_file(path, session.current.module)


def test_nothing_works_without_a_module() -> None:
    session = Session()
    for command in ("stats", "undo", "run", "verify"):
        with pytest.raises(hloc.HloError, match="no module is loaded"):
            list(execute(session, command))


def test_loading_starts_anew(session: Session) -> None:
    apply(session, "cse")
    session.load_text(TEXT)
    assert [state.label for state in session.states] == ["s0"]
    with pytest.raises(hloc.HloError, match="step what"):
        step(session)
