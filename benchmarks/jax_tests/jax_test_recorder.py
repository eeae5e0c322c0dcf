"""A pytest plugin that writes the begin and the outcome of every test as a line of JSON.

`HLOC_JAX_TESTS_RECORD` names the file. Tests that it holds already are not run again, so that the
process started after one that crashed goes on behind the crash. `HLOC_JAX_TESTS_SLICE` is the
number of seconds after which the process stops between two tests, `HLOC_JAX_TESTS_LIMIT` the
seconds after which it ends itself in the middle of one, whatever that test is doing.
"""

from __future__ import annotations

import faulthandler
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

RECORD = Path(os.environ["HLOC_JAX_TESTS_RECORD"])
SLICE_SECONDS = float(os.environ["HLOC_JAX_TESTS_SLICE"])
LIMIT_SECONDS = float(os.environ["HLOC_JAX_TESTS_LIMIT"])
_START = time.monotonic()
_reports: dict[str, list[pytest.TestReport]] = {}


def _write(**line: Any) -> None:
    with RECORD.open("a") as file:
        file.write(json.dumps(line) + "\n")


def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Leave out the tests that the record holds."""
    lines = RECORD.read_text().splitlines() if RECORD.exists() else []
    begun = {json.loads(line).get("test") for line in lines}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in begun])
    items[:] = [item for item in items if item.nodeid not in begun]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Write that the test begins, and limit its time."""
    _write(test=item.nodeid, state="begin")
    faulthandler.dump_traceback_later(LIMIT_SECONDS, exit=True)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep the reports of a test: setup, call, subtests, teardown."""
    _reports.setdefault(report.nodeid, []).append(report)


def pytest_runtest_logfinish(nodeid: str) -> None:
    """Write the outcome: failed if anything failed, else skipped if anything was."""
    reports = _reports.pop(nodeid, [])
    outcomes = {report.outcome for report in reports}
    outcome = next(
        name for name in ("failed", "skipped", "passed") if name in outcomes | {"passed"}
    )
    seconds = sum(report.duration for report in reports)
    _write(test=nodeid, state=outcome, seconds=round(seconds, 2), cause=_cause(reports))


def pytest_runtest_makereport(item: pytest.Item) -> None:
    """Stop between two tests when the slice is over."""
    if time.monotonic() - _START > SLICE_SECONDS:
        item.session.shouldstop = "the slice is over"


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Write that all tests were run."""
    if not session.shouldstop:
        _write(state="end", status=int(exitstatus))


def _cause(reports: list[pytest.TestReport]) -> str:
    """The line pytest shows for the first failure, with what the error says."""
    for report in reports:
        if report.outcome == "failed":
            crash = getattr(report.longrepr, "reprcrash", None)
            return str(crash.message if crash else report.longrepr)[:2000]
    return ""
