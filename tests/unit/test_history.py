"""The history of measurements: a line per version and machine, and what the page shows of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import bench_start, history, suite_page

MACHINE = {"cpu": "a processor", "python": "3.11"}
ROW = {"hloc": 1e-3, "xla": 2e-3, "cold": 0.1, "warm": 0.01, "xla_cold": 0.2}


def results(*rows: dict[str, Any]) -> dict[str, Any]:
    return {"machine": MACHINE, "cores": 1, "rows": {f"p{i}": row for i, row in enumerate(rows)}}


def test_a_line_holds_ratios_of_all_programs_and_their_means() -> None:
    line = history.suite_record(
        results(ROW, ROW | {"hloc": 4e-3}, {"fault": "wrong"}), results(ROW | {"hloc": 5e-4})
    )
    assert line["ratios"] == {
        "p0": {"run": 0.5, "cold": 0.5, "warm": 0.05, "all_cores": 0.25},
        "p1": {"run": 2.0, "cold": 0.5, "warm": 0.05},
    }
    assert line["means"] == {"run": 1.0, "cold": 0.5, "warm": 0.05, "all_cores": 0.25}
    assert line["machine"] == MACHINE


def test_a_version_has_one_line_per_machine(tmp_path: Path) -> None:
    first = history.suite_record(results(ROW)) | {"commit": "a"}
    for line in (first, first | {"commit": "b"}, first | {"machine": {"cpu": "other"}}, first):
        history.append(line, tmp_path)
    found = [(line["commit"], line["machine"]["cpu"]) for line in history.read("suite", tmp_path)]
    assert found == [("b", "a processor"), ("a", "other"), ("a", "a processor")]
    assert history.read("start", tmp_path) == []


def test_kept_lines_can_be_drawn() -> None:
    lines = history.read("suite")
    assert {"run", "cold", "warm"} <= lines[0]["means"].keys()
    legend = 3
    assert suite_page.history_chart(lines).count("<circle") == 3 * len(lines) + legend
    models = history.record("models", {"cpu": "a processor"}, means={"run": 0.5, "best": 0.6})
    page = suite_page.past_section(lines, history.read("start"), [models])
    assert (
        f"| {lines[0]['date']} | {lines[0]['commit']} | AMD EPYC | 0.34 |  | 0.99 | 0.25 |" in page
    )
    assert "| date | commit | machine | run | best |" in page
    assert "| a processor | 0.50 | 0.60 |" in page


def test_the_time_of_a_command_is_its_processor_time(tmp_path: Path) -> None:
    assert bench_start.processor_ms(("--version",), tmp_path) > 1
    with pytest.raises(RuntimeError, match="hloc parse /none ends with 1"):
        bench_start.processor_ms(("parse", "/none"), tmp_path)
