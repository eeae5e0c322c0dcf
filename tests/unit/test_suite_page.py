"""docs/performance.md as the results of the suite say it."""

from __future__ import annotations

from typing import Any

from benchmarks import suite_page

MACHINE = {
    "cpu": "a processor",
    "python": "3.11",
    "bytes_per_second": 1e10,
    "flops_per_second": 1e11,
}


def row(**more: float) -> dict[str, Any]:
    """Return what one program measured: hloc takes half of XLA's time."""
    times = {"hloc": 1e-3, "xla": 2e-3, "cold": 0.1, "warm": 0.01, "xla_cold": 0.2}
    return times | {"bytes": 1e6, "flops": 1e6, "temp": 8, "xla_temp": 16} | more


def results(cores: int, row: dict[str, Any]) -> dict[str, Any]:
    return {"machine": MACHINE, "cores": cores, "rows": {"dot": row, "sort": {"fault": "wrong"}}}


def text(together: dict[str, Any]) -> str:
    alone = results(1, row())
    return suite_page.page(alone, {"dot": alone["rows"]["dot"]}, together)


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
