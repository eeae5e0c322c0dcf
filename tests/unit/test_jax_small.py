"""The table of small JAX programs, and the table of the programs themselves."""

from __future__ import annotations

from benchmarks import jax_small

ROW = {"hloc": 1e-3, "jax": 4e-3, "hloc_compile": 0.1, "jax_compile": 0.2, "wrong": 0}
SLOW = ROW | {"hloc": 8e-3}


def test_means_and_what_is_slower() -> None:
    found = jax_small.summary({"a": ROW, "b": SLOW, "c": {"fault": "hloc: exit 1"}})
    assert found.splitlines() == [
        "2 of 3 programs, hloc / JAX: run 0.71, compile 0.50",
        "slower than JAX: b 2.00",
    ]


def test_a_wrong_answer_is_named() -> None:
    assert jax_small.row_text("a", ROW | {"wrong": 3}).endswith("WRONG: 3 elements")
    assert "WRONG" not in jax_small.row_text("a", ROW)


def test_a_line_of_the_history() -> None:
    content = {"machine": {"cpu": "a processor"}, "rows": {"a": ROW, "c": {"fault": "exit 1"}}}
    line = jax_small.history_line(content)
    assert line["suite"] == "jax_small"
    assert line["means"] == {"run": 0.25, "compile": 0.5}
    assert line["ratios"] == {"a": {"run": 0.25, "compile": 0.5}}
