"""The findings of the checker as text, JSON or JUnit XML."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from xml.sax.saxutils import escape, quoteattr

from hloc.errors import printable
from hloc.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check; `text` is the message, "" if it passed."""

    name: str
    ok: bool
    text: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """The verdict on one file.

    Attributes:
        who: the file, as given.
        score: 0 to 100; 0 unless passed.
    """

    who: str
    lesson: str
    findings: tuple[Finding, ...]
    score: int = 0

    @property
    def passed(self) -> bool:
        return bool(self.findings) and all(finding.ok for finding in self.findings)


SHOWN_LETTERS = 4000
"""Of each finding: what a file prints or raises may be as long as it likes."""


def shortened(text: str) -> str:
    """Return the text of a finding as far as it is shown."""
    left = len(text) - SHOWN_LETTERS
    return f"{text[:SHOWN_LETTERS]}... and {left:,} more letters" if left > 0 else text


def as_text(reports: Sequence[Report]) -> str:
    """Return the findings, line by line; a check that passed takes one word."""
    lines: list[str] = []
    for report in reports:
        verdict = f"passed, score {report.score} of 100" if report.passed else "not yet"
        lines.append(f"{printable(report.who)}: lesson {report.lesson}: {verdict}")
        for finding in report.findings:
            lines.append(f"  {'ok ' if finding.ok else 'NO '} {printable(finding.name)}")
            lines += [f"        {printable(line)}" for line in finding.text.splitlines()]
    return "\n".join(lines)


def as_json(reports: Sequence[Report]) -> str:
    """Return a list of objects: who, lesson, passed, score, findings."""
    rows = [{**asdict(report), "passed": report.passed} for report in reports]
    return json.dumps(rows, indent=1)


def as_junit(reports: Sequence[Report]) -> str:
    """Return JUnit XML: a suite per file, a case per finding."""
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', "<testsuites>"]
    for report in reports:
        failures = sum(not finding.ok for finding in report.findings)
        lines.append(
            f"<testsuite name={_quoted(report.who)} tests={_quoted(str(len(report.findings)))} "
            f"failures={_quoted(str(failures))}>"
        )
        for finding in report.findings:
            case = f"<testcase classname={_quoted(report.lesson)} name={_quoted(finding.name)}"
            if finding.ok:
                lines.append(f"{case}/>")
            else:
                body = escape(_clean(finding.text))
                lines.append(f"{case}><failure message={_quoted(_first(finding))}>{body}</failure>")
                lines.append("</testcase>")
        lines.append("</testsuite>")
    return "\n".join([*lines, "</testsuites>"])


def _first(finding: Finding) -> str:
    return finding.text.partition("\n")[0]


def _quoted(text: str) -> str:
    return quoteattr(_clean(text))


def _clean(text: str) -> str:
    """Remove characters that XML does not allow: control characters except tab and line ends."""
    return "".join(c if c >= " " or c in "\n\t" else "?" for c in text if not _is_odd(c))


def _is_odd(c: str) -> bool:
    return 0xD800 <= ord(c) <= 0xDFFF or ord(c) in (0xFFFE, 0xFFFF)
