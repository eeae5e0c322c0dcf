"""`ptx step` and the commands after it: one kernel instruction by instruction."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from hloc.errors import HloError
from repl.commands.row import Results, needed, number_of
from repl.kernels.gpu import kernel_steps
from repl.kernels.memory import shared_words
from repl.kernels.steps import PLACES, KernelSteps
from repl.kernels.view import (
    lanes_of_register,
    launches,
    registers,
    view,
    whereabouts,
)
from repl.results import Message
from repl.session import Session

_HINT = (
    f"  behind ptx: next [N], back [N], to LINE|{'|'.join(PLACES)}, thread N, block N, launch N,\n"
    "  regs [%r1], lanes %r1, shared [BYTE], where, end"
)


def _step(session: Session, rest: str) -> Results:
    session.kernel = kernel_steps(session, rest)
    yield view(session.kernel, opening=True)
    yield Message(_HINT, "dim")


def _here(session: Session) -> KernelSteps:
    if session.kernel is None:
        raise HloError("no kernel is open", notes=("use: ptx step %name",))
    return session.kernel


def _move(session: Session, count: int) -> Results:
    steps = _here(session)
    steps.go(count)
    yield view(steps)


def _to(session: Session, rest: str) -> Results:
    steps = _here(session)
    steps.go_to(needed(rest, "go where?", f"ptx to LINE|{'|'.join(PLACES)}"))
    yield view(steps)


def _choose(choose: Callable[[KernelSteps, str], None], session: Session, rest: str) -> Results:
    steps = _here(session)
    if rest:
        choose(steps, rest)
    yield view(steps)


def _launch(session: Session, rest: str) -> Results:
    steps = _here(session)
    if not rest:
        yield launches(steps)
        return
    steps.choose_launch(rest)
    yield view(steps, opening=True)


def _lanes(session: Session, rest: str) -> Results:
    steps = _here(session)
    yield lanes_of_register(steps, needed(rest, "which register?", "ptx lanes %r1"))


def _end(session: Session, rest: str) -> Results:
    _here(session)
    session.kernel = None
    yield Message("the kernel is closed")


VERBS: dict[str, Callable[[Session, str], Results]] = {
    "step": _step,
    "next": lambda session, rest: _move(session, number_of(rest)),
    "back": lambda session, rest: _move(session, -number_of(rest)),
    "to": _to,
    "thread": partial(_choose, KernelSteps.choose_thread),
    "block": partial(_choose, KernelSteps.choose_block),
    "launch": _launch,
    "regs": lambda session, rest: iter((registers(_here(session), rest),)),
    "lanes": _lanes,
    "shared": lambda session, rest: iter((shared_words(_here(session), rest),)),
    "where": lambda session, rest: iter((whereabouts(_here(session)),)),
    "end": _end,
}
"""What may follow `ptx` instead of the name of an instruction."""

USAGE = " | ".join(("ptx [%name]", *VERBS))
