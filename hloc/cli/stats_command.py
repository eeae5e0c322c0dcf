"""`hloc stats FILE...`: the composition and cost of a module."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict

from hloc.analysis.statistics import ModuleStatistics, module_statistics
from hloc.cli.guard import guarded_each
from hloc.cli.talk import Talk
from hloc.report.exits import Exit
from hloc.report.json_report import json_report
from hloc.report.source_input import need_files, read_modules, shown_name
from hloc.report.statistics_text import largest_arrays, overview, table_by


def print_statistics(arguments: Namespace, talk: Talk) -> int:
    """`hloc stats FILE...`."""
    found: list[dict[str, object]] = []

    def print_one(name: str) -> int:
        for module in read_modules(name):
            statistics = module_statistics(module)
            if arguments.format == "json":
                found.append({"file": shown_name(name), **_as_data(statistics)})
            elif arguments.by:
                talk.page("\n".join(table_by(statistics, arguments.by, 0)))
            else:
                lines = overview(statistics, shown_name(name))
                talk.page("\n".join([*lines, "", *largest_arrays(statistics)]))
        return Exit.OK

    code = guarded_each(talk, need_files(arguments.files), print_one)
    if arguments.format == "json":
        talk.product(json_report("stats", {"modules": found}))
    return code


def _as_data(found: ModuleStatistics) -> dict[str, object]:
    data = asdict(found)
    data["intensity"] = found.intensity
    data["loops_counted_as"] = "one iteration"
    return data
