"""The history of measurements: a line per version and machine, and what the page shows of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import bench_start, history, suite_page

MACHINE = {"cpu": "a processor", "python": "3.11"}
ROW = {"hloc": 1e-3, "xla": 2e-3, "cold": 0.1, "warm": 0.01, "xla_cold": 0.2}


def results(*rows: dict[str, Any], cores: int = 1, commit: str = "a") -> dict[str, Any]:
    head = {"commit": commit, "date": "2026-11-22", "machine": MACHINE, "cores": cores}
    return head | {"rows": {f"p{i}": row for i, row in enumerate(rows)}}


def line(content: dict[str, Any], **more: Any) -> history.Record:
    return history.record_of("suite", content, history.ratios_of_program) | more


def test_a_line_holds_ratios_of_all_programs_and_their_means(tmp_path: Path) -> None:
    history.append(line(results(ROW, ROW | {"hloc": 4e-3}, {"fault": "wrong"})), tmp_path)
    history.append(line(results(ROW | {"hloc": 5e-4}, cores=2)), tmp_path)
    (found,) = history.read("suite", tmp_path)
    assert found["ratios"] == {
        "p0": {"run": 0.5, "cold": 0.5, "warm": 0.05, "all_cores": 0.25},
        "p1": {"run": 2.0, "cold": 0.5, "warm": 0.05},
    }
    assert found["means"] == {"run": 1.0, "cold": 0.5, "warm": 0.05, "all_cores": 0.25}
    assert found["machine"] == MACHINE
    assert found["rows"]["1"]["p2"] == {"fault": "wrong"}
    assert history.newest_on_all([found])["rows"]["p0"]["hloc"] == 5e-4


def test_a_version_has_one_line_per_machine(tmp_path: Path) -> None:
    first = line(results(ROW))
    for one in (first, first | {"commit": "b"}, first | {"machine": {"cpu": "other"}}, first):
        history.append(one, tmp_path)
    lines = history.read("suite", tmp_path)
    found = [(one["commit"], one["machine"]["cpu"]) for one in lines]
    assert found == [("b", "a processor"), ("a", "other"), ("a", "a processor")]
    assert history.read("start", tmp_path) == []


def test_a_suite_may_be_measured_in_pieces(tmp_path: Path) -> None:
    """Programs that a later run leaves out keep their rows; those of another version are marked."""
    slow = ROW | {"hloc": 4e-3}
    history.append(line(results(ROW, ROW, commit="a")), tmp_path)
    history.append(line(results(slow, commit="b")), tmp_path)
    history.append(line(results(commit="b") | {"rows": {"p2": slow}}), tmp_path)
    old, new = history.read("suite", tmp_path)
    assert (set(new["ratios"]), set(old["ratios"])) == ({"p0", "p2"}, {"p0", "p1"})
    assert set(old["rows"]["1"]) == {"p1"}, "p0 was measured again"
    content = history.newest([old, new], order=("p2", "p1", "p0"))
    assert [history.title(name, content) for name in content["rows"]] == ["p2", "p1 (a)", "p0"]
    assert content["rows"]["p0"]["hloc"] == 4e-3
    assert "Version: b of 2026-11-22, or as a row says." in history.about(content)
    content = history.newest([old, new], order=("p1",))
    assert history.title("p1", content) == "p1", "the version is that of the rows in the table"


def test_rows_of_another_machine_are_kept_apart(tmp_path: Path) -> None:
    history.append(line(results(ROW, ROW)), tmp_path)
    history.append(line(results(ROW), machine={"cpu": "other", "python": "3"}), tmp_path)
    lines = history.read("suite", tmp_path)
    content = history.newest(lines)
    assert (content["machine"]["cpu"], set(content["rows"])) == ("other", {"p0"})
    assert set(lines[0]["rows"]["1"]) == {"p0", "p1"}


def test_the_load_is_said() -> None:
    content = history.newest([line(results(ROW | {"load": 1.5}, ROW | {"load": 6.0}))])
    assert "1 core, Python 3.11, shared with a load of 1.5 to 6:" in history.about(content)


def test_kept_lines_can_be_drawn() -> None:
    lines = history.read("suite")
    assert {"run", "cold", "warm"} <= lines[0]["means"].keys()
    legend = 3
    assert suite_page.history_chart(lines).count("<circle") == 3 * len(lines) + legend
    models = history.record("models", {"cpu": "a processor"}, means={"run": 0.5, "best": 0.6})
    past = {"suite": lines, "models": [models], "large": [], "start": history.read("start")}
    page = suite_page.past_section(past)
    head = f"| {lines[0]['date']} | {lines[0]['commit']} | AMD EPYC |"
    assert f"{head} 108 | 0.34 |  | 0.99 | 0.25 |" in page
    assert "| date | commit | machine | run | best |" in page
    assert "| a processor | 0.50 | 0.60 |" in page


def test_the_time_of_a_command_is_its_processor_time(tmp_path: Path) -> None:
    assert bench_start.processor_ms(("--version",), tmp_path) > 1
    with pytest.raises(RuntimeError, match="hloc parse /none ends with 1"):
        bench_start.processor_ms(("parse", "/none"), tmp_path)
