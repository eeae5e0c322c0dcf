"""The lower forms of a state."""

from __future__ import annotations

from repl.commands.row import Command, Results
from repl.lowering import KINDS, emitted, memory_text
from repl.results import ModuleText, Report
from repl.session import Session

_ALL_KINDS = (*KINDS, "ptx")
"""Kinds of all targets; PTX needs `set target=nvptx64`."""


def _emit(session: Session, rest: str) -> Results:
    kind, _, name = rest.partition(" ")
    yield ModuleText(emitted(session, kind, name.strip().lstrip("@")))


ROWS = (
    Command("emit", f"emit {'|'.join(_ALL_KINDS)} [%name]",
            "print compiled code, of the module or of one instruction", _emit, "kind",
            question="emit what?"),
    Command("asm", "asm [%name]", "print assembly, of all kernels or of one instruction's",
            lambda session, rest: ModuleText(emitted(session, "asm", rest)),
            "instruction"),
    Command("schedule", "schedule", "print the schedule",
            lambda session, _rest: ModuleText(emitted(session, "schedule"))),
    Command("mem", "mem", "print buffer sizes and the peak",
            lambda session, _rest: Report(memory_text(session))),
)  # fmt: skip
