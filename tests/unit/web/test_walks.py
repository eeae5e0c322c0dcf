"""States are made in parts: the same as all at once, and what goes wrong leaves those before."""

from typing import Any

import pytest

from hloc.errors import HloError
from hloc.opt.algebraic_simplifier import AlgebraicSimplifier
from hloc.web import answers
from hloc.web.answers import Answerer
from hloc.web.walks import Walked, begin_walk
from repl.session import Session
from tests.unit.web.test_answers import PASSES, TEXT, ask, walk


def begun(pipeline: str = PASSES) -> Walked:
    return begin_walk(TEXT, pipeline, Session())


def test_parts_are_the_same_as_the_whole() -> None:
    whole, parts = begun(), begun()
    whole.advance(float("inf"))
    seen = []
    while not parts.is_done:
        parts.advance(0)
        seen.append(len(parts.passes))
    assert seen == [1, 2, 3, 3]
    same = ("pass", "state", "rewrites", "effect", "summary")
    assert [[row.get(k) for k in same] for row in parts.passes] == [
        [row.get(k) for k in same] for row in whole.passes
    ]


def test_an_answer_has_what_the_page_does_not_know_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "PART_SECONDS", 0.0)
    answerer = Answerer()
    first = ask(answerer, "walk")
    assert (len(first["passes"]), first["done"]) == (1, False)
    second = ask(answerer, "walk", known=1)
    assert [row["pass"] for row in second["passes"]] == ["fusion"]
    assert len(walk(answerer)["passes"]) == 3
    again = ask(Answerer(), "walk", known=2)  # as of a child that was started anew
    assert (again["passes"], again["done"]) == ([], False)


def test_a_state_that_was_not_reached_yet_is_made() -> None:
    last = ask(Answerer(), "state", state=2)
    assert last["instructions"][1] == 5
    assert "the last one is 2" in ask(Answerer(), "state", state=3)["faults"][0]["message"]


def test_a_pass_that_fails_ends_the_walk_and_the_states_before_it_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failing(*_: Any) -> bool:
        raise HloError("it cannot be simplified")

    monkeypatch.setattr(AlgebraicSimplifier, "run", failing)
    answerer = Answerer()
    answer = walk(answerer, pipeline="fusion,algebraic-simplifier,cse")
    assert [row["pass"] for row in answer["passes"]] == ["fusion"]
    assert answer["notes"] == ["stopped: it cannot be simplified"]
    assert ask(answerer, "state", state=1, pipeline="fusion,algebraic-simplifier,cse")["rows"]


def test_passes_get_so_much_time_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "WALK_SECONDS", 0.0)
    answer = walk(Answerer())
    assert len(answer["passes"]) == 1
    assert answer["notes"] == ["stopped after 0 s of passes"]
