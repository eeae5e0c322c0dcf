"""`hloc passes`, `hloc rules`, `hloc ops`: lists from hloc's own tables."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable

from hloc.cli.pass_options import load_plugins
from hloc.cli.talk import Talk
from hloc.errors import HloError
from hloc.near_names import did_you_mean
from hloc.ops import OPCODES
from hloc.opt.registry import PASSES, is_in_library
from hloc.prove.record import proof_text
from hloc.report.describe import (
    all_rules,
    describe_opcode,
    describe_pass,
    opcode_data,
    pass_data,
    pass_summaries,
    rule_data,
    rule_summary,
)
from hloc.report.exits import Exit
from hloc.report.json_report import json_report


def list_passes(arguments: Namespace, talk: Talk) -> int:
    """`hloc passes [NAME]`."""
    load_plugins(arguments)
    if arguments.format == "json":
        names = arguments.files or sorted(PASSES)
        talk.product(json_report("passes", {"passes": [pass_data(name) for name in names]}))
        return Exit.OK
    if not arguments.files:
        summaries = pass_summaries()
        width = max(len(name) for name, _ in summaries)
        run = [row for row in summaries if not is_in_library(row[0])]
        library = [row for row in summaries if is_in_library(row[0])]
        talk.page("passes of the pipelines -O1 to -O3, and of lowering")
        talk.page(_table(run, width))
        talk.page("\nlibrary passes, which run only when --passes names them")
        talk.page(_table(library, width))
    for name in arguments.files:
        talk.page(describe_pass(name), prose=True)
    return Exit.OK


def list_opcodes(arguments: Namespace, talk: Talk) -> int:
    """`hloc ops [NAME]`."""
    if arguments.format == "json":
        names = arguments.files or sorted(OPCODES)
        talk.product(json_report("ops", {"opcodes": [opcode_data(name) for name in names]}))
        return Exit.OK
    if not arguments.files:
        talk.page(
            _table((row.name, row.reads) for row in (OPCODES[name] for name in sorted(OPCODES)))
        )
    for name in arguments.files:
        talk.page(describe_opcode(name), prose=True)
    return Exit.OK


def list_rules(arguments: Namespace, talk: Talk) -> int:
    """`hloc rules [WORD]`: all rules, or those whose name contains WORD."""
    load_plugins(arguments)
    words = arguments.files
    rules = [rule for rule in all_rules() if all(word in rule.name for word in words)]
    if not rules:
        known = [rule.name for rule in all_rules()]
        raise HloError(f"no rule name contains {' '.join(words)!r}{did_you_mean(words[0], known)}")
    if arguments.format == "json":
        talk.product(json_report("rules", {"rules": [rule_data(rule) for rule in rules]}))
        return Exit.OK
    told = proof_text if arguments.proof else rule_summary
    talk.page(_table((rule.name, told(rule)) for rule in rules))
    return Exit.OK


def _table(rows: Iterable[tuple[str, str]], width: int = 0) -> str:
    found = list(rows)
    width = max(width, *(len(name) for name, _ in found)) + 2
    return "\n".join(f"{name:{width}s}{text}".rstrip() for name, text in found)
