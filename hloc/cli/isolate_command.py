"""`hloc isolate FILE`: which instruction diverges, run alone on its true inputs."""

from __future__ import annotations

from argparse import Namespace

from hloc.cli.input_options import inputs_of
from hloc.cli.isolation.page import isolation_page
from hloc.cli.isolation.pieces import opened
from hloc.cli.isolation.report import isolation_data, report_lines, write_cases
from hloc.cli.isolation.search import Search
from hloc.cli.isolation.sides import Compiled, Counterpart, Side, Xla
from hloc.cli.progress import progress_of
from hloc.cli.talk import Talk
from hloc.errors import printable
from hloc.ir.module import Module
from hloc.jax.xla_child import XlaChild
from hloc.jax.xla_program import need_xla
from hloc.output_file import write_form
from hloc.report.compare import Bounds
from hloc.report.exits import Exit
from hloc.report.json_report import json_report
from hloc.report.source_input import need_files, need_one_device, read_module, shown_name
from hloc.report.text import plural


def isolate_file(arguments: Namespace, talk: Talk) -> int:
    """`hloc isolate FILE [--against=interp|O0|xla|FILE2]`: exit 1 if an instruction diverges."""
    a = arguments
    (file,) = need_files(a.files, exactly=1)
    module = read_module(file)
    need_one_device(module, "hloc isolate")
    given = inputs_of(a, module)
    arrays = given.arrays(module)
    if a.level == "instruction":
        module = opened(module)
    progress = progress_of(talk, "isolating")
    with XlaChild() as child, progress.running():
        search = Search(
            module,
            _sides(a.against, a.level, child),
            Bounds(a.rtol, a.atol),
            levels=a.height,
            chosen=a.filter,
            enters_loops=a.level == "instruction",
        )
        found = search.run(arrays, progress)
    names = [side.name for side in search.sides]
    how = given.describe(module)
    commands = write_cases(found.kept, a.repro_dir) if a.repro_dir else []
    if a.html:
        write_form(a.html, isolation_page(found, shown_name(file), names, how, commands))
        talk.say(f"{plural(len(found.diverging), 'divergence')}, in {printable(a.html)}")
    if a.format == "json":
        data = isolation_data(found, shown_name(file), names, how)
        talk.product(json_report("isolate", {**data, "commands": commands}))
    elif not a.html:
        lines = report_lines(found, names, how)
        if commands:
            lines += ["written:", *(f"  {command}" for command in commands)]
        elif found.diverging:
            lines.append("--repro-dir=DIR writes each piece that diverges with its inputs")
        talk.page("\n".join(lines))
    return Exit.FAULT if found.diverging else Exit.OK


def _sides(against: str, level: str, child: XlaChild) -> list[Side]:
    """Return what the pieces run on, beside the evaluator."""
    if against == "interp":
        return [Compiled(2)]
    if against == "O0":
        return [Compiled(2), Compiled(0)]
    if against == "xla":
        need_xla("--against=xla")
        return [Xla(child), Compiled(2)]
    other: Module = read_module(against)
    return [Counterpart(shown_name(against), opened(other) if level == "instruction" else other)]
