"""`hloc check FILE...`: runs the RUN lines of a file, and matches their output with its checks."""

from __future__ import annotations

import re
import shlex
from argparse import Namespace

from hloc.cli.filecheck.matching import Mismatch, match_output
from hloc.cli.filecheck.pattern import PatternFault, directives
from hloc.cli.filecheck.run_lines import RunLine, output_of, run_lines
from hloc.cli.guard import guarded_each
from hloc.cli.talk import Talk
from hloc.errors import Diagnostic, HloError
from hloc.output_file import write_form
from hloc.report.exits import Exit, UsageError
from hloc.report.source_input import need_files, read_source, shown_name
from hloc.report.text import plural
from hloc.source import SourceFile, Span


def check_files(arguments: Namespace, talk: Talk) -> int:
    """`hloc check FILE...`: exit 0 if all checks pass; with --update write them."""

    def check_one(name: str) -> int:
        """Check one file, or write its checks anew; faults are raised."""
        source = read_source(name)
        rows = list(run_lines(source.text))
        if not rows:
            note = ("write `// RUN: hloc %s --passes=dce` and `// CHECK: ...` lines",)
            raise HloError(f"{shown_name(name)} has no RUN line", notes=note)
        if arguments.update:
            text = _updated(source.text, rows, name)
            if text != source.text:
                write_form(name, text)
            changed = "written" if text != source.text else "unchanged"
            talk.say(f"{shown_name(name)}: checks {changed}")
            return Exit.OK
        count = sum(_check(row, source, name) for row in rows)
        talk.say(
            f"{shown_name(name)}: OK, {plural(len(rows), 'RUN line')}, {plural(count, 'check')}"
        )
        return Exit.OK

    files = need_files(arguments.files)
    if "-" in files:
        raise UsageError("check takes files, not stdin")
    return guarded_each(talk, files, check_one)


def _check(row: RunLine, source: SourceFile, name: str) -> int:
    """Check the output of one RUN line; returns the number of its checks.

    Raises:
        HloError: a check fails, or there is none.
    """
    try:
        checks = list(directives(source.text, row.prefixes))
        if not checks and not row.fails:
            note = ("`hloc check --update` writes them",)
            kind = " or ".join(row.prefixes)
            raise HloError(f"{shown_name(name)} has no {kind} line", notes=note)
        output = output_of(row, name)
        match_output(output, checks)
    except PatternFault as fault:
        raise HloError(f"{shown_name(name)}: {fault}") from None
    except Mismatch as fault:
        raise HloError([_diagnostic(fault, row, source, output)]) from None
    return len(checks)


def _diagnostic(fault: Mismatch, row: RunLine, source: SourceFile, output: str) -> Diagnostic:
    """Return the fault at its check line, with the part of the output that was searched."""
    lines = source.text.split("\n")
    start = sum(len(line) + 1 for line in lines[: fault.row.line - 1]) + fault.row.column - 1
    span = Span(source, start, start + max(1, len(fault.row.text)))
    number = output.count("\n", 0, fault.at) + 1
    around = output.split("\n")[number - 1 : number + 2]
    notes = [f"RUN line {row.line}: {shlex.join(['hloc', *row.words])}"]
    notes += [f"output {number + i}: {line}" for i, line in enumerate(around) if line.strip()]
    return Diagnostic(str(fault), span, tuple(notes))


# ---------------------------------------------------------------- --update


def _updated(text: str, rows: list[RunLine], name: str) -> str:
    """Return `text` with its check lines replaced by the whole output.

    They are written at the place of the first, or after the last RUN line.
    """
    prefixes = tuple(dict.fromkeys(row.prefixes[0] for row in rows))
    written: list[str] = []
    for prefix in prefixes:
        outputs = {output_of(row, name): row for row in rows if row.prefixes[0] == prefix}
        if len(outputs) > 1:
            numbers = " and ".join(str(row.line) for row in outputs.values())
            raise HloError(
                f"{shown_name(name)}: RUN lines {numbers} print different texts",
                notes=("`| FileCheck %s --check-prefix=NAME` gives one checks of its own",),
            )
        written += [line for output in outputs for line in _lines(prefix, output)]
    every = "|".join(re.escape(p) for row in rows for p in row.prefixes)
    old = re.compile(rf"\s*//\s*(?:{every})(?:-[A-Z]+(?:-\d+)?)?(?:\{{LITERAL\}})?:")
    lines = text.split("\n")
    kept = [line for line in lines if not old.match(line)]
    first = next((i for i, line in enumerate(lines) if old.match(line)), None)
    if first is None:
        first = 1 + max(i for i, line in enumerate(lines) if re.match(r"\s*(?://|#)\s*RUN:", line))
    return "\n".join([*kept[:first], *written, *kept[first:]])


def _lines(prefix: str, output: str) -> list[str]:
    found: list[str] = []
    for line in output.rstrip("\n").split("\n"):
        following = "-NEXT" if found else ""
        literal = "{LITERAL}" if "[[" in line or "{{" in line else ""
        if line.strip():
            found.append(f"// {prefix}{following}{literal}: {line}")
        elif found:
            found.append(f"// {prefix}-EMPTY:")
    return found
