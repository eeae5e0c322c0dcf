"""A kernel of a state, stepped in the PTX interpreter for the page."""

from typing import Any

import pytest

from hloc.web.answers import Answerer
from hloc.web.questions import read_question

TEXT = """HloModule m
ENTRY e { x = f32[40] parameter(0) n = f32[40] negate(x) ROOT m = f32[40] sqrt(n) }
"""


@pytest.fixture(scope="module")
def answerer() -> Answerer:
    return Answerer()


def seen(answerer: Answerer, **place: Any) -> dict[str, Any]:
    question = {"ask": "kernel", "text": TEXT, "pipeline": "cse", **place}
    return answerer.answer(read_question(question))


def test_a_kernel_is_stepped_forward_and_back(answerer: Answerer) -> None:
    first = seen(answerer, name="n")
    assert first["text"].startswith("ROOT n = f32[40] negate(")
    assert ".visible .entry" in first["ptx"]
    assert first["kernels"] == ["n", "m"]
    assert "none yet" in first["registers"]
    end = seen(answerer, name="n", at=first["last"]["at"])
    assert "warp 0 has left" in end["text"]
    assert "%r" in end["registers"]
    assert seen(answerer, name="n", at=10**6)["at"]["at"] == first["last"]["at"]
    assert seen(answerer, name="n") == first


def test_a_step_is_found_by_what_it_does(answerer: Answerer) -> None:
    found = seen(answerer, name="n", to="global")
    assert "ld.global" in found["text"].split(">", 1)[1].splitlines()[0]
    assert seen(answerer, name="n", **found["at"])["text"] == found["text"]


def test_the_whole_state_has_a_launch_for_each_kernel(answerer: Answerer) -> None:
    assert seen(answerer)["last"]["launch"] == 1
    second = seen(answerer, launch=1, thread=33)
    assert second["text"].startswith("ROOT m = f32[40] sqrt(")
    assert "thread 33 (lane 1 of warp 1)" in second["text"]


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ({"name": "nowhere"}, "nowhere"),
        ({"launch": 7}, "launches are 1 to 2"),
        ({"block": 10**6}, "there is no block"),
        ({"thread": -1}, "there is no thread"),
        ({"to": "nowhere"}, "cannot go to 'nowhere'"),
    ],
)
def test_unknown_names_are_reported(answerer: Answerer, place: Any, words: str) -> None:
    assert words in seen(answerer, **place)["faults"][0]["message"]
