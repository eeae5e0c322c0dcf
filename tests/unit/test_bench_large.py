"""The figures of large modules, and the section of docs/performance.md made of them."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import bench_large, history, suite_page

ROW: dict[str, Any] = {
    "hloc": {"first": 2.0, "changed": 1.5, "memory": 50e6, "instructions": 10_000.0, "passes": 1.5},
    "xla": {"first": 4.0, "memory": 100e6},
    "wrong": 0,
    "distance": 1e-6,
}
FAILED = {"xla": {"fault": "xla: exit 1"}}
CONTENT = {
    "commit": "c0ffee",
    "date": "2026-11-28",
    "machine": {"cpu": "a processor", "python": "3.11"},
    "cores": 1,
    "rows": {"gpt": ROW, "deep": FAILED},
}


def test_ratios_and_the_time_of_the_passes() -> None:
    assert bench_large.ratios(ROW) == {"first": 0.5, "memory": 0.5}
    assert bench_large.ratios(FAILED) == {}
    assert bench_large.microseconds(ROW) == 150
    assert "first result 0.50 of XLA's time" in bench_large.summary({"gpt": ROW, "deep": FAILED})


def test_one_product_in_the_middle_is_changed() -> None:
    line = "  p = f32[4]{0} multiply(x, y)\n"
    assert bench_large.changed_text(line * 4) == line * 2 + line.replace("multiply", "add") + line
    with pytest.raises(ValueError, match="no product"):
        bench_large.changed_text("ROOT s = f32[] add(x, y)")


def test_faults_are_named() -> None:
    assert bench_large.fault(ROW) == ""
    assert bench_large.fault(FAILED) == "xla: exit 1"
    assert "WRONG: 2" in bench_large.row_text("gpt", ROW | {"wrong": 2})


def test_the_page_has_a_row_per_module() -> None:
    line = history.record_of("large", CONTENT, bench_large.ratios)
    text = "\n".join(suite_page.large_section([line]))
    assert "| gpt | 10,000 | 150 | 2.00 | 0.50 | 1.50 | 50 | 0.50 |" in text
    assert "| deep |" not in text
    assert "| 2026-11-28 | c0ffee | a processor | 1 | 0.50 | 0.50 |" in text
