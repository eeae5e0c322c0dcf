"""`hloc diff A B`: the differences between two modules, instruction by instruction."""

from __future__ import annotations

from argparse import Namespace

from hloc.analysis.file_diff import DiffOptions, diff_modules
from hloc.analysis.module_diff import KIND_NAMES, SAME, ModuleDiff
from hloc.cli.guard import guarded
from hloc.cli.talk import Talk
from hloc.ir.module import Module
from hloc.report.diff_text import diff_data, diff_lines
from hloc.report.exits import Exit
from hloc.report.json_report import json_report
from hloc.report.source_input import need_files, read_module, shown_name

_TROUBLE = 2


def diff_files(arguments: Namespace, talk: Talk) -> int:
    """`hloc diff A B`: exit 0 if the modules say the same, 1 if not, 2 if one cannot be read."""
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
    found = diff_modules(old, new, options)
    if arguments.format == "json":
        talk.product(json_report("diff", _as_data(found, first, second)))
    elif arguments.stat:
        talk.product("\n".join(_stat_lines(found)))
    elif not found.is_empty:
        _print(found, (first, second), arguments.context, talk)
    return Exit.OK if found.is_empty else Exit.FAULT


def _print(found: ModuleDiff, files: tuple[str, str], context: int, talk: Talk) -> None:
    paint = talk.product_paint
    lines = [paint.strong(f"- {shown_name(files[0])}"), paint.strong(f"+ {shown_name(files[1])}")]
    lines += diff_lines(found, paint, 0, context)
    talk.product("\n".join([*lines, paint.dim(f"{found.summary()}   ({_legend(found)})")]))


def _legend(found: ModuleDiff) -> str:
    names = (f"{kind} {name}" for kind, name in KIND_NAMES.items() if found.count(kind))
    return ", ".join(name for name in names if not name.startswith(SAME)) or "header only"


def _stat_lines(found: ModuleDiff) -> list[str]:
    """Return counts per computation and in all."""
    lines = [f"module {row.name}" for row in found.header]
    width = max((len(c.name) for c in found.computations), default=0)
    for computation in found.computations:
        one = ModuleDiff((computation,))
        lines.append(f"{computation.kind} {computation.name:{width}s}  {one.summary()}".rstrip())
    return [*lines, f"total: {found.summary() if found.computations or not lines else 'header'}"]


def _as_data(found: ModuleDiff, first: str, second: str) -> dict[str, object]:
    files = {"old": shown_name(first), "new": shown_name(second), "same": found.is_empty}
    return {**files, **diff_data(found)}
