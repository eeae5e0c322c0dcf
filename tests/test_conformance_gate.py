"""The gate itself: it must count rightly, fail when a rate falls, and never lower a floor."""

from tests.conformance_gate import Rate, below, raised, rates_of, table

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
