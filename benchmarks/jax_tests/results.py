"""What JAX's tests did under two backends, compared, and the failures that are known."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

FAILURES = ("failed", "died")


@dataclass(frozen=True)
class Outcome:
    """How one test ended.

    Attributes:
        state: "passed", "failed", "skipped", or "died": the process ended in the middle, by a crash
            or because the test's time was over.
        cause: the error's message, "" where nothing failed.
    """

    state: str
    seconds: float = 0.0
    cause: str = ""


def read_record(text: str) -> tuple[dict[str, Outcome], bool]:
    """Return the outcomes by test that a record holds, and whether the file was run to its end."""
    outcomes: dict[str, Outcome] = {}
    ended = False
    for line in text.splitlines():
        row = json.loads(line)
        if "test" not in row:
            ended = True
        elif row["state"] == "begin":
            outcomes[row["test"]] = Outcome("died", cause="the process died or the time was over")
        else:
            outcomes[row["test"]] = Outcome(row["state"], row["seconds"], row["cause"])
    return outcomes, ended


@dataclass(frozen=True)
class Known:
    """A line of the list of known failures: the tests it covers, and why they fail."""

    pattern: str
    cause: str

    def covers(self, test: str) -> bool:
        """True for a test whose id matches the pattern; brackets in it are ordinary characters."""
        return fnmatch.fnmatchcase(test, self.pattern.replace("[", "[[]"))


def read_known(path: Path) -> list[Known]:
    """Return the known failures: a pattern of test ids, two spaces, the cause; # is a comment.

    Raises:
        ValueError: a line has no cause.
    """
    rows = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        pattern, _, cause = line.partition("  ")
        if not cause.strip():
            raise ValueError(f"{path}:{number}: no cause: a test, two spaces, why it fails")
        rows.append(Known(pattern, cause.strip()))
    return rows


@dataclass(frozen=True)
class Comparison:
    """One file of tests that plain JAX passes, under hloc.

    Attributes:
        passed: those that hloc passes.
        failures: those that fail under hloc.
        skipped: those that skip themselves there, for want of several devices, for instance.
    """

    file: str
    passed: tuple[str, ...]
    failures: Mapping[str, Outcome]
    skipped: tuple[str, ...]

    @property
    def count(self) -> int:
        """How many tests ran on both."""
        return len(self.passed) + len(self.failures)


def compare(file: str, cpu: Mapping[str, Outcome], hloc: Mapping[str, Outcome]) -> Comparison:
    """Compare one file's outcomes, test by test."""
    found = {test: hloc[test] for test, o in cpu.items() if o.state == "passed" and test in hloc}
    failures = {test: outcome for test, outcome in found.items() if outcome.state in FAILURES}
    passed = tuple(test for test, outcome in found.items() if outcome.state == "passed")
    skipped = tuple(test for test, outcome in found.items() if outcome.state == "skipped")
    return Comparison(file, passed, failures, skipped)


def table(comparisons: Iterable[Comparison], known: Iterable[Known]) -> str:
    """Return the comparison as Markdown: a row per file, then every failure with its cause."""
    rows = list(comparisons)
    known = list(known)
    lines = ["| file | pass on CPU | fail on hloc | skipped on hloc |", "|---|---|---|---|"]
    lines += [
        f"| {row.file} | {row.count} | {len(row.failures)} | {len(row.skipped)} |" for row in rows
    ]
    count = sum(row.count for row in rows)
    failed = sum(len(row.failures) for row in rows)
    share = 100 * (count - failed) / count if count else 100.0
    lines += [
        "",
        f"{count - failed} of {count} tests that pass on CPU pass on hloc: {share:.2f} %.",
    ]
    for row in rows:
        for test, outcome in row.failures.items():
            cause = next((k.cause for k in known if k.covers(test)), "NEW: " + _line(outcome.cause))
            lines.append(f"- `{test}`: {cause}")
    return "\n".join(lines) + "\n"


def unlisted(comparisons: Iterable[Comparison], known: Iterable[Known]) -> list[str]:
    """Return the failures that no line of the list covers."""
    known = list(known)
    failures = [test for row in comparisons for test in row.failures]
    return [test for test in failures if not any(k.covers(test) for k in known)]


def outdated(comparisons: Iterable[Comparison], known: Iterable[Known]) -> list[Known]:
    """Return the lines of the list whose tests ran, and all of them passed."""
    rows = list(comparisons)
    failures = [test for row in rows for test in row.failures]
    passed = [test for row in rows for test in row.passed]
    return [
        line
        for line in known
        if any(map(line.covers, passed)) and not any(map(line.covers, failures))
    ]


def _line(text: str) -> str:
    return " ".join(text.split())[:300]
