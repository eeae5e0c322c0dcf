"""`hloc extract FILE %NAME`: the part of a module that one instruction depends on."""

from __future__ import annotations

from argparse import Namespace

from hloc.analysis.extract import extract, find_instruction
from hloc.cli.emit import deliver_module
from hloc.cli.talk import Talk
from hloc.ir.verifier import verify
from hloc.report.exits import Exit, UsageError
from hloc.report.source_input import read_module, shown_name
from hloc.report.text import plural


def extract_module(arguments: Namespace, talk: Talk) -> int:
    """`hloc extract FILE %NAME [--height=N] [-o OUT]`."""
    if len(arguments.files) != 2:
        raise UsageError("expected a file and the name of an instruction: FILE %NAME")
    file, name = arguments.files
    inst = find_instruction(read_module(file), name)
    module = extract(inst, arguments.height)
    verify(module)
    deliver_module(module, arguments, talk)
    talk.say(
        f"{shown_name(file)}: {inst.name} with {plural(module.instruction_count, 'instruction')}, "
        f"{plural(len(module.entry.parameters), 'parameter')}"
    )
    return Exit.OK
