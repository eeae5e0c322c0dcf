"""`hloc hash FILE...`: a canonical digest of each module."""

from __future__ import annotations

from argparse import Namespace

from hloc.analysis.diff.module_hash import HashOptions, module_hash
from hloc.cli.guard import guarded_each
from hloc.cli.talk import Talk
from hloc.ir.module import Module
from hloc.ir.traversal import all_instructions
from hloc.report.exits import Exit
from hloc.report.json_report import json_report
from hloc.report.source_input import need_files, read_modules, shown_name
from hloc.report.text import plural


def hash_files(arguments: Namespace, talk: Talk) -> int:
    """`hloc hash FILE...`: a line per module, digest and file, as `sha256sum` prints them."""
    ignored = arguments.ignore
    options = HashOptions(
        layouts="layouts" not in ignored,
        header="header" not in ignored,
        names="names" not in ignored,
        metadata="metadata" not in ignored,
        shapes="shapes" not in ignored,
        constants="constants" not in ignored,
    )
    found: list[dict[str, object]] = []

    def hash_one(name: str) -> int:
        for module in read_modules(name):
            digest = module_hash(module, options)
            elided = _elided(module) if options.constants else 0
            if arguments.format == "json":
                row = {"file": shown_name(name), "name": module.name, "hash": digest}
                found.append({**row, "elided_constants": elided})
            else:
                talk.page(f"{digest}  {shown_name(name)}")
            if elided:
                text = f"{plural(elided, 'constant')} left out as {{...}}, which all count as equal"
                talk.warn(f"{shown_name(name)}: {text}")
        return Exit.OK

    code = guarded_each(talk, need_files(arguments.files), hash_one)
    if arguments.format == "json":
        talk.product(json_report("hash", {"ignored": list(ignored), "modules": found}))
    return code


def _elided(module: Module) -> int:
    """Return the number of constants elided from the text."""
    return sum(
        inst.opcode.parenthesis == "literal" and inst.attributes.literal.is_elided
        for inst in all_instructions(module)
    )
