"""docs/linear-algebra.md as the results of the suite say it."""

from __future__ import annotations

from benchmarks import linear_algebra_page
from tests.unit.test_suite_page import results, row

GROUPS = {"inverses": "small_matrices", "steps": "factorisations"}


def text() -> str:
    content = results(1, row()) | {"rows": {"inverses": row(), "steps": row(hloc=1.8e-3)}}
    return linear_algebra_page.page(content, GROUPS)


def test_a_program_stands_in_the_table_of_its_group() -> None:
    batches, steps = text().split("## ")[1:3]
    assert batches.endswith("| inverses | 1 | 2 | 0.50 | 0.50 | 0.05 | 0.50 |\n\n")
    assert "| steps | 1.8 | 2 | 0.90 | 0.50 | 0.05 | 0.50 |" in steps


def test_programs_above_the_goal_are_named() -> None:
    assert "above 0.8: steps 0.90\n" in text()
