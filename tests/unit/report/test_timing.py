"""What the line `run:` says of the times of several runs."""

import pytest

from hloc.report.run_report import Timing


@pytest.mark.parametrize(
    ("runs", "median", "p95"), [(1, 1.0, 1.0), (2, 1.5, 2.0), (3, 2.0, 3.0), (20, 10.5, 19.0)]
)
def test_median_and_p95(runs: int, median: float, p95: float) -> None:
    """Of 20 runs one may take longer than p95; of two none, and p95 is not below the median."""
    timing = Timing(tuple(float(run + 1) for run in range(runs)))
    assert (timing.median, timing.p95) == (median, p95)
