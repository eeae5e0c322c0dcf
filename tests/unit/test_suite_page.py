"""docs/performance.md as the results of the suite say it."""

from __future__ import annotations

from typing import Any

from benchmarks import suite_page

HEAD = {
    "machine": {"cpu": "a processor", "python": "3.11"},
    "commit": "c0ffee",
    "date": "2026-11-22",
}


def row(**more: float) -> dict[str, Any]:
    """Return what one program measured: hloc takes half of XLA's time."""
    times = {"hloc": 1e-3, "xla": 2e-3, "cold": 0.1, "warm": 0.01, "xla_cold": 0.2}
    return times | {"limit": 0.1, "temp": 8, "xla_temp": 16, "commit": "c0ffee"} | more


def results(cores: int, row: dict[str, Any]) -> dict[str, Any]:
    return HEAD | {"cores": cores, "rows": {"dot": row, "sort": {"fault": "wrong", "commit": "1"}}}


def text(together: dict[str, Any]) -> str:
    return suite_page.page([(results(1, row()), together)])


def test_a_row_per_program_that_was_measured() -> None:
    found = text({"rows": {}})
    assert "| dot | 1 | 2 | 0.50 |  | 10% | 0.50 | 0.05 | 0.50 |" in found
    assert "sort" not in found
    assert "cores, by the clock" not in found


def test_all_cores_beside_one_where_both_were_measured() -> None:
    found = text(results(2, row(alone=1.25e-3)))
    assert "run 0.50 of XLA's time; hloc alone, all cores / one: 0.80; slower on all: none" in found


def test_all_cores_without_a_run_on_one() -> None:
    """There is no line about threads, and no other line stands in its place."""
    line = next(line for line in text(results(2, row())).splitlines() if "On 2 cores" in line)
    assert line.endswith("run 0.50 of XLA's time")


def test_each_machine_has_a_table_of_its_own() -> None:
    other = results(1, row(hloc=4e-3)) | {"machine": {"cpu": "another", "python": "3.12"}}
    page = suite_page.page([(other, {"rows": {}}), (results(1, row()), {"rows": {}})])
    _, first, second = page.split("\n## ")
    assert first.startswith("another\n")
    assert "| dot | 4 | 2 | 2.00 |" in first
    assert second.startswith("a processor\n")
    assert "| dot | 1 | 2 | 0.50 |" in second
    assert suite_page.sentence(other).startswith("another: 1 of 1 programs: ")


def test_the_largest_module_that_ran_is_told_of() -> None:
    def measured(instructions: int) -> dict[str, Any]:
        hloc = {"instructions": instructions, "passes": 0.1, "first": 1.5, "memory": 3e7}
        return {"hloc": hloc, "xla": {"first": 30.0, "memory": 6e8}}

    rows = {"small": measured(900), "large": measured(12_000), "wrong": {"hloc": {"fault": "x"}}}
    found = suite_page.large_sentence([HEAD | {"rows": {"1": rows}}])
    assert "`large`, a training step of 12,000 instructions" in found
    assert "1.5 s after its text: 0.05 of XLA:CPU's time, in 0.05 of its memory" in found
