"""`hloc doctor DUMP_DIR`, `hloc doctor A B`: explains what XLA wrote with `--xla_dump_to`."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Sequence

from hloc.cli.progress import progress_of
from hloc.cli.talk import Talk
from hloc.dumps.compare_report import compare_dumps, comparison_data, comparison_lines
from hloc.dumps.dump_page import dump_page
from hloc.dumps.dump_report import report_data, report_lines, report_of
from hloc.dumps.folder import folder_of_file, read_folder
from hloc.errors import HloError, printable
from hloc.output_file import write_form
from hloc.report.exits import Exit, UsageError
from hloc.report.json_report import json_report
from hloc.report.text import plural

_MOST_FAULTS = 8


def doctor_of_dumps(arguments: Namespace, talk: Talk) -> int:
    """Print the report of a dump; exit 1 if some of its files cannot be read.

    Raises:
        HloError: the folder holds no modules, or nothing in it can be read.
    """
    if len(arguments.files) == 2:
        return _doctor_of_two(arguments, talk)
    if len(arguments.files) != 1:
        raise UsageError(f"expected one or two dumps, found {len(arguments.files)}")
    progress = progress_of(talk, "reading the dump")

    def on_file(name: str) -> None:
        progress.detail = name

    with progress.running():
        report = report_of(read_folder(arguments.files[0]), arguments.module, on_file)
    if arguments.html:
        write_form(arguments.html, dump_page(report, arguments.html))
        modules = plural(len(report.details), "module")
        talk.say(f"{printable(report.folder.path)}: {modules}, in {printable(arguments.html)}")
    if arguments.format == "json":
        talk.product(json_report("dump", report_data(report)))
    elif not arguments.html:
        talk.page("\n".join(_headed(report_lines(report), talk)))
    faults = [fault for found in report.details for fault in found.unreadable]
    _tell_unreadable(faults, talk)
    return Exit.FAULT if faults else Exit.OK


def _doctor_of_two(arguments: Namespace, talk: Talk) -> int:
    """Print the differences between two dumps, or modules; exit 0 if there are none, else 1."""
    if arguments.html:
        raise UsageError("--html is for one dump; hloc diff A B --html=FILE.html compares modules")
    progress = progress_of(talk, "reading the dumps")

    def on_file(name: str) -> None:
        progress.detail = name

    with progress.running():
        old, new = (
            read_folder(name) if os.path.isdir(name) else folder_of_file(name)
            for name in arguments.files
        )
        found = compare_dumps(old, new, arguments.module, on_file)
    if arguments.format == "json":
        talk.product(json_report("dumps", comparison_data(found)))
    else:
        talk.page("\n".join(_headed(comparison_lines(found), talk)))
    _tell_unreadable([fault for pair in found.pairs for fault in pair.unreadable], talk)
    return Exit.OK if found.same else Exit.FAULT


def _headed(lines: list[str], talk: Talk) -> list[str]:
    paint = talk.product_paint
    return [paint.strong(line) if line.startswith("== ") else line for line in lines]


def _tell_unreadable(faults: Sequence[tuple[str, str]], talk: Talk) -> None:
    """List the files that could not be read, after the report of the others."""
    if faults:
        rows = tuple(f"{path}: {text}" for path, text in faults[:_MOST_FAULTS])
        what = f"{plural(len(faults), 'file')} of the dump cannot be read"
        talk.fault(HloError(what, notes=rows))
