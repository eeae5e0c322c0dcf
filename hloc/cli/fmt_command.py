"""`hloc fmt FILE...`: formats HLO text in place."""

from __future__ import annotations

from argparse import Namespace
from difflib import unified_diff

from hloc.cli.guard import guarded_each
from hloc.cli.talk import Talk
from hloc.output_file import write_form
from hloc.parser.format_text import format_text
from hloc.report.exits import Exit, UsageError
from hloc.report.source_input import need_files, read_source, shown_name


def format_files(arguments: Namespace, talk: Talk) -> int:
    """`hloc fmt FILE...`: rewrite the files, or stdin to stdout; with --check write nothing."""
    if arguments.check and arguments.diff:
        raise UsageError("--check and --diff exclude each other")

    def format_one(name: str) -> int:
        source = read_source(name)
        formatted = format_text(source)
        changed = formatted != source.text
        if arguments.diff:
            _print_diff(name, source.text, formatted, talk)
        elif arguments.check and changed:
            talk.say(f"{shown_name(name)}: would be formatted")
        elif not arguments.check and name == "-":
            talk.product(formatted)
        elif not arguments.check and changed:
            write_form(name, formatted)
            talk.say(f"{shown_name(name)}: formatted")
        return Exit.FAULT if changed and (arguments.check or arguments.diff) else Exit.OK

    return guarded_each(talk, need_files(arguments.files), format_one)


def _print_diff(name: str, old: str, new: str, talk: Talk) -> None:
    shown = shown_name(name)
    lines = unified_diff(old.split("\n"), new.split("\n"), shown, f"{shown} formatted", lineterm="")
    for line in lines:
        talk.product(talk.product_paint.diff_line(line))
