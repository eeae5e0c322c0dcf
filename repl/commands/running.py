"""Run states, compare results, measure."""

from __future__ import annotations

from os.path import expanduser

from hloc.errors import HloError
from hloc.report.input_specs import KINDS, parameters_of
from hloc.report.kernel_times import kernel_lines
from repl.commands.row import Command, Results
from repl.profiling import profile, with_reason
from repl.results import Message, Report, Table
from repl.running import bench, compare_xla, run, value_of
from repl.session import Session
from repl.verifying import verify


def _input(session: Session, rest: str) -> Results:
    name, equals, spec = rest.partition("=")
    if not equals or not name.strip() or not spec.strip():
        raise HloError("which input?", notes=("use: input x=SPEC", f"forms: {', '.join(KINDS)}"))
    shown = session.inputs.use_spec(name.strip(), spec.strip(), session.current.module)
    yield Message(f"{shown} = {spec.strip()}")


def _inputs(session: Session, rest: str) -> Results:
    word, _, seed = rest.partition(" ")
    if word == "random":
        if seed and not (seed.isdecimal() and len(seed) < 10):
            raise HloError(f"expected a seed of 0 or more, found {seed!r}")
        session.inputs.clear()
        session.inputs.seed = int(seed or 0)
        yield Message(f"random inputs, seed {session.inputs.seed}")
    elif rest:
        path = expanduser(rest)
        session.inputs.use_file(path, session.current.module)
        yield Message(f"inputs from {path}")
    else:
        yield _table_of_inputs(session)


def _table_of_inputs(session: Session) -> Table:
    specs = session.inputs.specs
    rest = session.inputs.file or f"random, seed {session.inputs.seed}"
    rows = tuple(
        (p.names[0], p.shape.text_without_layout, specs.get(p.number, rest))
        for p in parameters_of(session.current.module)
    )
    return Table("" if rows else "the module takes no inputs", (), rows)


def _run(session: Session, rest: str) -> Results:
    words = set(rest.split())
    if words - {"--interp", "--print"}:
        raise HloError(f"cannot read {rest!r}", notes=("use: run [--print] [--interp]",))
    with session.progress.work("run"):
        result = run(session, interpret="--interp" in words, print_all="--print" in words)
    yield result


def _watch(session: Session, rest: str) -> Results:
    if not rest:
        yield Message(f"watching {', '.join(session.watched) or 'nothing'}")
        return
    if rest == "off":
        session.watched.clear()
        yield Message("watching nothing")
        return
    inst = session.find(rest)
    value = value_of(session, inst.name)
    if inst.name not in session.watched:
        session.watched.append(inst.name)
    yield value


def _verify(session: Session, rest: str) -> Results:
    states = rest.replace("..", " ").split()
    if len(states) > 2:
        raise HloError("verify takes at most two states")
    yield verify(session, *states)


def _bench(session: Session, rest: str) -> Results:
    found = bench(session, rest.replace("..", " ").split())
    with session.progress.work("timing kernels"):
        found = with_reason(session, found)
    yield found


def _profile(session: Session, rest: str) -> Results:
    with session.progress.work("timing kernels"):
        found = profile(session, session.current)
    head, *lines = kernel_lines(found.kernels, found.left)
    yield Report("\n".join([f"{found.label} {head}", *lines]))


def _compare(session: Session, rest: str) -> Results:
    if rest != "xla":
        raise HloError("compare with what?", notes=("use: compare xla",))
    yield compare_xla(session)


ROWS = (
    Command("input", "input NAME=SPEC",
            f"set one input; SPEC is one of {' '.join(KINDS)}", _input, "", True),
    Command("inputs", "inputs [FILE.npz | random SEED]", "set the inputs of run, or list them",
            _inputs, "file", True),
    Command("run", "run [--print] [--interp]",
            "compile, run and compare with s0; --interp uses the evaluator", _run),
    Command("eval", "eval %name", "print the value of an instruction of the entry computation",
            value_of,
            "instruction", question="eval what?"),
    Command("watch", "watch [%name | off]", "print a value in every run", _watch, "instruction",
            True),
    Command("verify", "verify [A] [B]",
            "compare two states on 24 input sets, and find the wrong rewrite",
            _verify, "state"),
    Command("bench", "bench [A B ...]", "time states on the current inputs",
            _bench, "state"),
    Command("profile", "profile", "time each kernel of this state", _profile),
    Command("compare", "compare xla", "compare this state with the loaded module run by XLA",
            _compare),
)  # fmt: skip
