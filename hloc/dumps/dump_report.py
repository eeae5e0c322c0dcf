"""The report of `hloc doctor DUMP_DIR`: all modules, recompilations, and some modules in detail."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import asdict
from functools import partial
from typing import Any

from hloc import driver
from hloc.dumps.examine import Examined, Findings, examine
from hloc.dumps.folder import DumpFolder, DumpModule, modules_named
from hloc.dumps.recompiled import Recompiled, recompiled
from hloc.dumps.sections import Section, recompilations, sections_of
from hloc.errors import HloError, printable
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.quantities import size_text
from hloc.report.text import aligned, plural

MOST_MODULES = 4
"""Number of modules shown in detail unless one is named: those with the largest files."""

_MOST_LISTED = 40


@dataclass(frozen=True, slots=True)
class DumpReport:
    """The findings of a dump.

    Attributes:
        details: findings of some of them.
        recompiled: programs that were compiled several times.
    """

    folder: DumpFolder
    details: tuple[Findings, ...]
    recompiled: tuple[Recompiled, ...]


def report_of(
    folder: DumpFolder, wanted: str = "", on_file: Callable[[str], None] = lambda name: None
) -> DumpReport:
    """Read a dump.

    Args:
        folder: the files of the dump.
        wanted: part of the names of the modules to show in detail; "" for the largest.
        on_file: called with the name of what is read next.

    Raises:
        HloError: no module has that name.
    """
    chosen = modules_named(folder, wanted) if wanted else _largest(folder.modules)
    details: dict[str, Examined] = {}
    for module in chosen:
        details[module.name] = examine(module, partial(_on_stage, on_file, module.name))
    again = recompiled(_first_modules(folder, details, on_file))
    return DumpReport(folder, tuple(found.findings for found in details.values()), again)


def _on_stage(on_file: Callable[[str], None], module: str, how: str) -> None:
    on_file(f"{module}: {how}")


def _largest(modules: Iterable[DumpModule]) -> tuple[DumpModule, ...]:
    sizes = {module.name: sum(map(_size, (f.path for f in module.stages))) for module in modules}
    order = sorted(modules, key=lambda module: -sizes[module.name])[:MOST_MODULES]
    return tuple(sorted(order, key=lambda module: module.name))


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def _first_modules(
    folder: DumpFolder, known: dict[str, Examined], on_file: Callable[[str], None]
) -> Iterable[tuple[str, Module]]:
    """Yield each module before its first pass, if it can be read."""
    for module in folder.modules:
        found = known.get(module.name)
        if found is not None:
            if found.first is not None:
                yield module.name, found.first
        elif module.before is not None:
            on_file(module.name)
            try:
                yield module.name, driver.load_module(module.before.path)
            except HloError:
                continue  # reported when the module is examined


def report_sections(report: DumpReport) -> list[Section]:
    """Return the part of the report about the whole dump."""
    found = [_overview(report)]
    again = recompilations(report.recompiled)
    return found if again is None else [*found, again]


def _overview(report: DumpReport) -> Section:
    """Return the list of modules, with figures of those that are reported in detail."""
    folder = report.folder
    details = {found.name: found for found in report.details}
    rows: list[tuple[str, ...]] = []
    for module in folder.modules[:_MOST_LISTED]:
        found = details.get(module.name)
        cells = [module.name, plural(len(module.stages), "file")]
        if found is not None and found.after is not None:
            cells += [
                plural(found.after.instructions, "instruction"),
                plural(found.after.kernels, "kernel"),
            ]
            cells.append(size_text(found.memory.total_bytes) if found.memory else "")
        rows.append(tuple(cells))
    text = f"{plural(len(folder.modules), 'module')}"
    if len(details) < len(folder.modules):
        text += f", {len(details)} of them below; --module=NAME tells of others"
    if folder.others:
        names = ", ".join(map(printable, folder.others[:3]))
        more = ", ..." if len(folder.others) > 3 else ""
        text += f"; not XLA's: {plural(len(folder.others), 'file')} ({names}{more})"
    left = max(0, len(folder.modules) - _MOST_LISTED)
    return Section("modules", text, tuple(rows), (1, 2, 3, 4), left)


def report_lines(report: DumpReport) -> list[str]:
    """Return the report as text."""
    lines = [printable(report.folder.path)]
    for section in report_sections(report):
        lines += section_lines(section)
    for found in report.details:
        lines += ["", f"== {printable(found.name)}"]
        for section in sections_of(found):
            lines += section_lines(section)
    return lines


def section_lines(section: Section) -> list[str]:
    """Return a section as text: title and summary, then the rows below them."""
    head = f"{section.title}: {section.summary}" if section.summary else section.title
    rows = aligned(section.rows, section.numbers) if section.rows else []
    more = [f"    ... {section.left:,} more, all with --format=json"] if section.left else []
    return [printable(head), *(f"    {printable(row)}" for row in rows), *more]


def report_data(report: DumpReport) -> dict[str, Any]:
    """Return the report as JSON."""
    return {
        "folder": report.folder.path,
        "modules": [module.name for module in report.folder.modules],
        "others": list(report.folder.others),
        "recompiled": [asdict(group) for group in report.recompiled],
        "details": [asdict(found) for found in report.details],
    }
