"""`hloc parse`, `hloc verify`: commands that only read modules."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from hloc.cli.emit import deliver, text_options
from hloc.cli.guard import guarded_each
from hloc.cli.talk import Talk
from hloc.errors import HloError
from hloc.parser import SEPARATOR
from hloc.report.exits import Exit, UsageError
from hloc.report.json_report import diagnostic_data, json_report
from hloc.report.source_input import need_files, read_modules, shown_name
from hloc.report.text import plural


def parse_files(arguments: Namespace, talk: Talk) -> int:
    """`hloc parse FILE...`: print each module, or its diagnostics."""
    files = need_files(arguments.files)
    if len(files) > 1 and arguments.output_file:
        raise UsageError("-o needs a single input file")

    def parse_one(name: str) -> int:
        modules = read_modules(name, verify=not arguments.no_verify)
        style = text_options(arguments)
        texts = (module.to_text(**style, large_constants=True) for module in modules)
        text = f"{SEPARATOR}\n".join(texts)
        deliver(text, arguments.output_file, talk)
        return Exit.OK

    return guarded_each(talk, files, parse_one)


def verify_files(arguments: Namespace, talk: Talk) -> int:
    """`hloc verify FILE...`: one line per good module, diagnostics for the others."""
    if arguments.prove is not None:
        from hloc.cli.prove_command import prove_equal

        return prove_equal(arguments, talk)
    files = need_files(arguments.files)
    if arguments.format == "json":
        found = [_verified(name) for name in files]
        talk.product(json_report("verify", {"files": found}))
        return Exit.OK if all(file["ok"] for file in found) else Exit.FAULT

    def verify_one(name: str) -> int:
        for module in read_modules(name):
            counts = (
                f"{plural(module.instruction_count, 'instruction')}, "
                f"{plural(len(module.computations), 'computation')}"
            )
            talk.say(f"{shown_name(name)}: OK, module {module.name}, {counts}")
        return Exit.OK

    return guarded_each(talk, files, verify_one)


def _verified(name: str) -> dict[str, Any]:
    """Return one file as JSON data: its modules, or the diagnostics."""
    modules, diagnostics = [], []
    try:
        modules = read_modules(name)
    except HloError as fault:
        diagnostics = [diagnostic_data(diagnostic) for diagnostic in fault.diagnostics]
    counts = [
        {
            "name": module.name,
            "instructions": module.instruction_count,
            "computations": len(module.computations),
        }
        for module in modules
    ]
    ok = not diagnostics
    return {"file": shown_name(name), "ok": ok, "modules": counts, "diagnostics": diagnostics}
