"""`hloc diff A B`: the differences between two modules, instruction by instruction."""

from __future__ import annotations

from argparse import Namespace

from hloc.analysis.diff.diff_rows import KIND_WORDS, DiffTable
from hloc.analysis.diff.file_diff import DiffOptions, table_of_modules
from hloc.cli.guard import guarded
from hloc.cli.talk import Talk
from hloc.errors import printable
from hloc.ir.module import Module
from hloc.output_file import write_form
from hloc.report.diff.diff_data import diff_data
from hloc.report.diff.diff_lines import DiffView, unified_lines
from hloc.report.diff.diff_page import diff_page
from hloc.report.exits import Exit
from hloc.report.json_report import json_report
from hloc.report.source_input import need_files, read_module, shown_name

_TROUBLE = 2


def diff_files(arguments: Namespace, talk: Talk) -> int:
    """`hloc diff A B`: exit 0 if the modules are equal, 1 if not, 2 if one cannot be read."""
    first, second = need_files(arguments.files, exactly=2)
    modules: list[Module] = []

    def read(name: str) -> int:
        modules.append(read_module(name))
        return Exit.OK

    if guarded(talk, lambda: read(first)) or guarded(talk, lambda: read(second)):
        return _TROUBLE
    ignored = arguments.ignore
    options = DiffOptions(
        layouts="layouts" not in ignored,
        header="header" not in ignored,
        names="names" not in ignored,
        metadata="metadata" not in ignored,
    )
    old, new = modules
    found = table_of_modules(old, new, options)
    if arguments.format == "json":
        talk.product(json_report("diff", _as_data(found, first, second)))
    elif arguments.html:
        view = DiffView(found, expand=arguments.expand, context=arguments.context)
        names = (shown_name(first), shown_name(second))
        write_form(arguments.html, diff_page(view, " → ".join(names)))
        talk.say(f"{found.summary()}, in {printable(arguments.html)}")
    elif arguments.stat:
        talk.page("\n".join(_stat_lines(found)))
    elif not found.is_empty:
        _print(
            DiffView(found, expand=arguments.expand, context=arguments.context),
            (first, second),
            talk,
        )
    return Exit.OK if found.is_empty else Exit.FAULT


def _print(view: DiffView, files: tuple[str, str], talk: Talk) -> None:
    paint = talk.product_paint
    lines = [paint.strong(f"- {shown_name(files[0])}"), paint.strong(f"+ {shown_name(files[1])}")]
    lines += map(paint.styled, unified_lines(view))
    last = f"{view.table.summary()}   ({_legend(view.table)})"
    talk.page("\n".join([*lines, paint.dim(last)]))


def _legend(found: DiffTable) -> str:
    return ", ".join(f"{kind} {KIND_WORDS[kind]}" for kind in found.counts()) or "header only"


def _stat_lines(found: DiffTable) -> list[str]:
    """Return the counts per computation and in total."""
    lines = [f"module {row.name}" for row in found.header]
    width = max((len(c.name) for c in found.computations), default=0)
    for computation in found.computations:
        one = DiffTable((computation,))
        lines.append(f"{computation.kind} {computation.name:{width}s}  {one.summary()}".rstrip())
    return [*lines, f"total: {found.summary() if found.computations or not lines else 'header'}"]


def _as_data(found: DiffTable, first: str, second: str) -> dict[str, object]:
    files = {"old": shown_name(first), "new": shown_name(second), "same": found.is_empty}
    return {**files, **diff_data(found)}
