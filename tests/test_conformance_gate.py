"""The gate itself: it must count rightly, fail when a rate falls, and never lower a floor."""

from tests.conformance_gate import (
    DIGEST,
    Rate,
    below,
    explained,
    raised,
    rates_of,
    table,
    unexplained,
)

ROWS = [
    {"oracle_parse": "ok", "parse": "ok", "has_run": True, "run": "exact"},
    {"oracle_parse": "ok", "parse": "ok", "has_run": True, "run": "mismatch"},
    {"oracle_parse": "ok", "parse": "crash", "has_run": True, "run": "not_reached"},
    {"oracle_parse": "ok", "parse": "ok", "has_run": False},
    {"oracle_parse": "reject", "parse": "reject", "has_run": False},
    {"oracle_parse": "reject", "parse": "crash", "has_run": False},
]


def test_rates_count_crashes_and_unreached_runs_as_failures() -> None:
    assert rates_of(ROWS) == {"parse": Rate(3, 4), "reject": Rate(1, 2), "run": Rate(1, 3)}
    assert rates_of(ROWS, "run") == {"run": Rate(1, 3)}


def test_a_rate_below_its_floor_fails_and_is_named() -> None:
    measured = {"jax": {"run": Rate(59, 100)}}
    assert below(measured, {"jax": {"run": 60.0}}) == ["jax run: 59.0% is below 60.0%"]
    assert below(measured, {"jax": {"run": 59.0}}) == []
    assert "BELOW" in table(measured, {"jax": {"run": 60.0}})[1]


def test_a_measure_that_disappears_fails() -> None:
    assert below({"jax": {}}, {"jax": {"run": 1.0}}) == ["jax run: 0.0% is below 1.0%"]


def test_a_group_that_was_not_run_is_not_judged() -> None:
    assert below({}, {"jax": {"run": 60.0}}) == []


def test_update_only_raises() -> None:
    floors = {"jax": {"run": 60.0, "parse": 99.0}, "models": {"parse": 50.0}}
    measured = {"jax": {"run": Rate(80, 100), "parse": Rate(90, 100)}}
    assert raised(measured, floors) == {
        "jax": {"run": 79.5, "parse": 99.0},
        "models": {"parse": 50.0},
    }


def test_a_wrong_answer_without_a_cause_is_named() -> None:
    """Rows that end by time are named apart: a slower machine has more of them."""
    digests = {name: name * 64 for name in "abc"}
    rows = [
        {"id": digests["a"], "has_run": True, "run": "mismatch"},
        {"id": digests["b"], "has_run": True, "run": "timeout"},
        {"id": digests["c"], "has_run": True, "run": "close"},
    ]
    known = {"a" * DIGEST: "subnormals", "b" * DIGEST: "infinite-loops"}
    assert unexplained(rows, known) == ("2 differ, all explained", [], [])
    line, wrong, other = unexplained(rows, {})
    assert line == "2 differ, 2 without a cause"
    assert wrong == [f"{digests['a']} mismatch"]
    assert other == [f"{digests['b']} timeout"]


def test_the_list_of_causes_holds_starts_of_digests_and_names_of_programs() -> None:
    assert all(len(row) == DIGEST or row.startswith("jax/") for row in explained())
