"""Sharded JAX programs give XLA's answer: its partitioned text, and hloc's own partitioning."""

from __future__ import annotations

import pytest

from benchmarks.sharded.dumped import Dumped
from benchmarks.sharded.ways import RUN
from tests.sharded.committed import NAMES, PROGRAMS


@pytest.mark.parametrize("way", ["local", "evaluator", "partitioned"])
@pytest.mark.parametrize("name", NAMES)
def test_the_answer_is_that_of_xla(name: str, way: str) -> None:
    row = RUN[way](Dumped(PROGRAMS, name))
    assert row is not None
    assert row["bad"] == 0, row


def test_another_answer_is_noticed() -> None:
    """The comparison that all of these rest on can fail."""

    class Wrong(Dumped):
        def result_parts(self, shapes: list[tuple[int, ...]]) -> list[object]:
            return [leaf + 1 for leaf in super().result_parts(shapes)]

    row = RUN["evaluator"](Wrong(PROGRAMS, "data_parallel_gradient"))
    assert row is not None
    assert row["bad"] > 0
