"""The report of a dump as an HTML page, with links between its parts and to the files and diffs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from html import escape
from urllib.parse import quote

from hloc import driver
from hloc.analysis.diff.file_diff import table_of_modules
from hloc.dumps.dump_report import DumpReport, report_sections
from hloc.dumps.examine import CONTENT, Findings, PassChange
from hloc.dumps.sections import Section, sections_of
from hloc.errors import HloError, printable
from hloc.pictures.plain_page import plain_page
from hloc.report.diff.diff_lines import DiffView
from hloc.report.diff.diff_page import DIFF_STYLE, diff_block

_MOST_ROWS = 500
_MOST_DIFFS = 200
_CONTEXT = 2
_STYLE = """
td { font: 13px/1.4 ui-monospace, monospace; } summary { cursor: pointer; }
"""


def dump_page(report: DumpReport, path: str) -> str:
    """Return the page of `report`, whose links are relative to the file `path`."""
    folder = report.folder.path
    anchors = {found.name: f"m{i}" for i, found in enumerate(report.details)}
    body: list[str] = []
    for section in report_sections(report):
        body += _section(section, 2, anchors)
    for found in report.details:
        body += _module(found, anchors[found.name], os.path.dirname(os.path.abspath(path)))
    return plain_page(printable(folder), DIFF_STYLE + _STYLE, body)


def _module(found: Findings, anchor: str, here: str) -> Iterator[str]:
    sections = [s for s in sections_of(found, _MOST_ROWS) if s.title != "passes"]
    yield f'<h2 id="{anchor}">{escape(printable(found.name))}</h2>'
    titles = [section.title for section in sections]
    if found.passes:
        titles.append("passes")
    links = (f'<a href="#{anchor}-{_slug(title)}">{escape(title)}</a>' for title in titles)
    yield f"<p>{' · '.join(links)}</p>"
    for section in sections:
        yield from _section(section, 3, {}, anchor)
    if found.passes:
        yield f'<h3 id="{anchor}-passes">passes</h3>'
        yield from _passes(found.passes, f"{anchor}-pass", here)


def _slug(title: str) -> str:
    return title.replace(" ", "-")


def _section(
    section: Section, level: int, anchors: dict[str, str], prefix: str = "all"
) -> Iterator[str]:
    slug = f"{prefix}-{_slug(section.title)}"
    yield f'<h{level} id="{slug}">{escape(section.title)}</h{level}>'
    if section.summary:
        yield f'<p class="quiet">{escape(printable(section.summary))}</p>'
    if section.rows:
        yield "<div class='wide' tabindex='0'><table>"
        yield from (_row(row, section.numbers, anchors) for row in section.rows)
        yield "</table></div>"
    if section.left:
        yield f"<p>{section.left:,} more are not shown.</p>"


def _row(cells: Iterable[str], numbers: tuple[int, ...], anchors: dict[str, str]) -> str:
    row = []
    for i, cell in enumerate(cells):
        kind = " class='number'" if i in numbers else ""
        text = escape(printable(cell))
        anchor = anchors.get(cell.strip())
        row.append(f"<td{kind}>{f'<a href=#{anchor}>{text}</a>' if anchor else text}</td>")
    return f"<tr>{''.join(row)}</tr>"


def _passes(changes: tuple[PassChange, ...], prefix: str, here: str) -> Iterator[str]:
    """Yield a collapsible block for each pass: its effect, its file, and the diff."""
    for number, change in enumerate(changes):
        before, after = change.instructions
        told = [change.summary, f"{before:,} -> {after:,} instructions", change.effect]
        words = "   ".join(filter(None, told))
        yield (
            f'<details id="{prefix}{number}"><summary><b>{escape(printable(change.name))}</b> '
            f'<span class="quiet">{escape(words)}</span></summary>'
        )
        link = quote(os.path.relpath(os.path.abspath(change.file), here))
        yield f'<p><a href="{link}">{escape(printable(os.path.basename(change.file)))}</a></p>'
        if number < _MOST_DIFFS:
            yield _diff(change, f"{prefix}{number}-")
        yield "</details>"


def _diff(change: PassChange, prefix: str) -> str:
    try:
        before, after = (driver.load_module(p) for p in (change.before, change.file))
    except HloError as fault:
        return f"<p>{escape(printable(fault.message))}</p>"
    table = table_of_modules(before, after, CONTENT)
    return diff_block(DiffView(table, context=_CONTEXT), prefix)
