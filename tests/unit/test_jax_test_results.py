"""The comparison of JAX's own tests under two backends, and the list of known failures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.jax_tests.results import (
    Comparison,
    Known,
    Outcome,
    compare,
    outdated,
    read_known,
    read_record,
    table,
    unlisted,
)
from benchmarks.jax_tests.run import HERE

PASSED, FAILED, SKIPPED = (
    Outcome("passed"),
    Outcome("failed", 1.0, "no\nsuch call"),
    Outcome("skipped"),
)


def record(*rows: dict[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def done(test: str, state: str) -> dict[str, Any]:
    return {"test": test, "state": state, "seconds": 0.5, "cause": ""}


def test_a_test_without_an_outcome_died() -> None:
    text = record(
        {"test": "a", "state": "begin"}, done("a", "passed"), {"test": "b", "state": "begin"}
    )
    outcomes, ended = read_record(text)
    assert outcomes["a"] == Outcome("passed", 0.5)
    assert outcomes["b"].state == "died"
    assert not ended
    assert read_record(text + record({"state": "end", "status": 0}))[1]


def test_only_tests_that_plain_jax_passes_count() -> None:
    cpu = {"a": PASSED, "b": PASSED, "c": FAILED, "d": PASSED, "not run": PASSED}
    row = compare("f", cpu, {"a": PASSED, "b": FAILED, "c": FAILED, "d": SKIPPED})
    assert row == Comparison("f", ("a",), {"b": FAILED}, ("d",))
    assert row.count == 2
    assert compare("f", {"a": PASSED}, {"a": Outcome("died")}).failures


def test_failures_and_the_list_are_held_against_each_other() -> None:
    rows = [Comparison("f", ("t.py::test_y",), {"t.py::test_x[1]": FAILED}, ())]
    known = [Known("t.py::test_x[*]", "why"), Known("t.py::test_y", "mended")]
    assert unlisted(rows, known) == []
    assert unlisted(rows, known[1:]) == ["t.py::test_x[1]"]
    assert outdated(rows, known) == known[1:]
    assert outdated(rows, [Known("t.py::test_z", "did not run")]) == []


def test_table_shows_counts_and_causes() -> None:
    rows = [Comparison("f", ("t::v", "t::w"), {"t::x": FAILED, "t::y": FAILED}, ("t::z",))]
    text = table(rows, [Known("t::x", "needs two devices")])
    assert "| f | 4 | 2 | 1 |" in text
    assert "50.00 %" in text
    assert "`t::x`: needs two devices" in text
    assert "`t::y`: NEW: no such call" in text


def test_every_known_failure_has_a_cause(tmp_path: Path) -> None:
    read_known(HERE / "known_failures.txt")
    bad = tmp_path / "known.txt"
    bad.write_text("# comment\nt::x  why\nt::y\n")
    with pytest.raises(ValueError, match=r"known\.txt:3: no cause"):
        read_known(bad)
