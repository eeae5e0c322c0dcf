"""`hloc explain CODE|NAME`: explains diagnostics, passes, rules, opcodes and options."""

from __future__ import annotations

from argparse import Namespace

from hloc.cli.options import OPTIONS
from hloc.cli.talk import Talk
from hloc.report.exits import Exit, UsageError
from hloc.report.explanation import explanation_of


def explain(arguments: Namespace, talk: Talk) -> int:
    """`hloc explain NAME...`."""
    if arguments.plugin:
        from hloc.cli.pass_options import load_plugins

        load_plugins(arguments)
    if not arguments.files:
        raise UsageError("expected a diagnostic code, a pass, a rule, an opcode, or exit-codes")
    talk.page("\n\n".join(_explanation_of(name) for name in arguments.files), prose=True)
    return Exit.OK


def _explanation_of(name: str) -> str:
    options = [f"option {row.spelling}\n  {row.help}" for row in OPTIONS if name in row.flags]
    return explanation_of(name, options)
