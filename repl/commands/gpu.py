"""A state as code for NVIDIA GPUs."""

from __future__ import annotations

from repl.commands.kernel_steps import USAGE, VERBS
from repl.commands.row import Command, Results
from repl.kernels.gpu import ptx_text, simulation
from repl.results import Message, ModuleText
from repl.session import Session


def _ptx(session: Session, rest: str) -> Results:
    verb, _, words = rest.partition(" ")
    if verb in VERBS:
        yield from VERBS[verb](session, words.strip())
    else:
        yield ModuleText(ptx_text(session, rest))


def _sim(session: Session, rest: str) -> Results:
    table, text, is_right = simulation(session, rest)
    yield table
    yield Message(text, "good" if is_right else "bad")


ROWS = (
    Command("ptx", USAGE, "print PTX, of the state or of one kernel; "
            "step [%name] steps through it by instruction", _ptx,
            "kind,instruction"),
    Command("sim", "sim [%name]",
            "run the PTX in the checking interpreter; counts instructions, sectors, bank conflicts",
            _sim,
            "instruction"),
)  # fmt: skip
