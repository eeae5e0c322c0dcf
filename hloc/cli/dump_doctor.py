"""`hloc doctor DUMP_DIR`: explains what XLA wrote with `--xla_dump_to`."""

from __future__ import annotations

from argparse import Namespace

from hloc.cli.progress import progress_of
from hloc.cli.talk import Talk
from hloc.dumps.dump_page import dump_page
from hloc.dumps.dump_report import DumpReport, report_data, report_lines, report_of
from hloc.dumps.folder import read_folder
from hloc.errors import HloError, printable
from hloc.output_file import write_form
from hloc.report.exits import Exit, UsageError
from hloc.report.json_report import json_report
from hloc.report.text import plural


def doctor_of_dumps(arguments: Namespace, talk: Talk) -> int:
    """Print the report of a dump; exit 1 if some of its files cannot be read.

    Raises:
        HloError: the folder holds no modules, or nothing in it can be read.
    """
    if len(arguments.files) != 1:
        raise UsageError(f"expected one folder, found {len(arguments.files)}")
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
        paint = talk.product_paint
        lines = report_lines(report)
        talk.page("\n".join(paint.strong(s) if s.startswith("== ") else s for s in lines))
    return _code(report, talk)


def _code(report: DumpReport, talk: Talk) -> int:
    """Return the exit code; files that could not be read are an error, told at the end."""
    faults = [fault for found in report.details for fault in found.unreadable]
    if not faults:
        return Exit.OK
    rows = tuple(f"{path}: {text}" for path, text in faults[:8])
    talk.fault(HloError(f"{plural(len(faults), 'file')} of the dump cannot be read", notes=rows))
    return Exit.FAULT
