"""The forms of `diff`: counts, JSON, one computation, one instruction, two columns."""

import json
from pathlib import Path

import pytest

from hloc.errors import HloError
from repl.state_diff import DiffRequest
from tests.repl.conftest import Say

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "softmax_relu.hlo"


@pytest.fixture
def said(say: Say) -> Say:
    say(f"load {EXAMPLE}\napply call-inliner, algsimp")
    return say


def test_json_holds_rows_rules_and_deltas(said: Say) -> None:
    data = json.loads(said("diff prev --json"))
    assert (data["before"], data["after"], data["by"]) == ("s1", "s2", "algebraic-simplifier")
    assert data["counts"] == {"removed": 12, "rewired": 3}
    assert data["delta"]["instructions"] == -12
    (main,) = data["computations"]
    row = next(row for row in main["rows"] if row["name"] == "add.6")
    assert row["kind"] == "rewired"
    assert row["before"].endswith("broadcast(add.5), dimensions={1}")
    assert row["after"].endswith("broadcast(b.1), dimensions={1}")
    assert row["by"] == "algebraic-simplifier/reshape-reshape"


def test_counts_are_given_per_computation_and_rule(said: Say) -> None:
    text = said("diff s0 --stat")
    assert "ENTRY main.4" in text
    assert "rows by algebraic-simplifier/reshape-reshape" in text
    assert "instructions 38 → 28" in text


def test_one_instruction_shows_the_change_it_is_part_of(said: Say) -> None:
    text = said("diff %add.6")
    assert "add.5 → b.1" in text
    assert "div.6" not in text
    with pytest.raises(HloError, match=r"no difference at 'exp\.1'"):
        said("diff %exp.1")


def test_one_computation_is_shown_alone(said: Say) -> None:
    assert "ENTRY" not in said("diff s0 s2 @relu.1")
    assert "no difference" in said("diff @region_0.2")
    with pytest.raises(HloError, match="no computation named 'nope'"):
        said("diff @nope")


def test_the_same_state_has_no_difference(said: Say) -> None:
    assert "s1 → s1: no difference" in said("diff s1 s1")


def test_two_columns_are_the_default_when_set(said: Say) -> None:
    said("set diff=side")
    assert "│" in said("diff")
    assert "│" not in said("diff --unified")


def test_a_range_is_two_states() -> None:
    request = DiffRequest.parse("s1..s3 --expand")
    assert (request.before, request.after, request.expand) == ("s1", "s3", True)


def test_the_default_is_what_the_last_command_did(said: Say) -> None:
    assert "s0 → s2" in said("diff")
    assert "s1 → s2" in said("diff prev")
    said("undo")
    assert "s0 → s1" in said("diff")
    said("redo\napply dce\napply -O2")
    after = said("diff --stat").split()[2]
    assert int(after[1:]) > 4, "more than one pass changed something"
    assert said("diff --stat").startswith(f"s3 → {after}")


def test_next_goes_on_to_the_next_change(said: Say) -> None:
    said("goto s0\npipeline -O2")
    text = said("next")
    assert "call-inliner" in text
    assert " of passes changed nothing" in text
    assert "s0 → s3 call-inliner" in said("diff --stat")
