"""The commands of the REPL: one row each, with a function on the session that returns data.

A command line is words; `apply` and `step` take the rest of the line as the text of a pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from os.path import expanduser
from typing import TypeAlias

from hloc.analysis.module_diff import Line, line_of
from hloc.errors import HloError, reason_of
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.print_order import instruction_order
from hloc.ir.traversal import all_instructions
from hloc.opt.pipeline import Pipeline
from repl.diff import text_diff
from repl.session import Applied, Effect, Session, State

DIFF_ROWS = 200


@dataclass(frozen=True, slots=True)
class Message:
    """A plain line."""

    text: str


@dataclass(frozen=True, slots=True)
class Moved:
    """The current state is another one now."""

    state: State
    how: str


@dataclass(frozen=True, slots=True)
class ModuleText:
    """HLO text."""

    text: str


@dataclass(frozen=True, slots=True)
class Listing:
    """Lines of some instructions, grouped by computation."""

    groups: tuple[tuple[str, tuple[Line, ...]], ...]


@dataclass(frozen=True, slots=True)
class Info:
    """One instruction with what is around it."""

    line: Line
    shape: str
    computation: str
    operands: tuple[Line, ...]
    users: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Effects:
    """Passes, with what each would do here."""

    effects: tuple[Effect, ...]


@dataclass(frozen=True, slots=True)
class Help:
    """The command table, or one row of it."""

    commands: tuple[Command, ...]


@dataclass(frozen=True, slots=True)
class Quit:
    """The session is over."""


Results: TypeAlias = Iterator[object]
"""What a command has to show, one item after the other, as it becomes known."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command.

    Attributes:
        takes: what completes after it: `file`, `pass`, `instruction`, `state`, `command` or "".
    """

    name: str
    usage: str
    summary: str
    function: Callable[[Session, str], Results]
    takes: str = ""


def execute(session: Session, line: str) -> Results:
    """Carry out one line; comments (`#`) and empty lines do nothing.

    Raises:
        HloError: an unknown command, or what the command raises.
    """
    text = line.strip()
    if not text or text.startswith("#"):
        return
    name, _, rest = text.partition(" ")
    if name.startswith("%"):
        name, rest = "show", text
    if name in ALIASES:
        name = ALIASES[name]
    if name not in COMMANDS:
        near = get_close_matches(name, [*COMMANDS, *ALIASES], n=1)
        raise HloError(
            f"unknown command {name!r}",
            notes=(f"did you mean {near[0]!r}?" if near else "type help for the commands",),
        )
    yield from COMMANDS[name].function(session, rest.strip())


# ---------------------------------------------------------------- functions


def _load(session: Session, rest: str) -> Results:
    if not rest:
        raise HloError("load what?", notes=("use: load FILE",))
    yield Moved(session.load(expanduser(rest)), "load")


def load_pasted(session: Session, text: str) -> Results:
    """Load a module that was pasted at the prompt."""
    yield Moved(session.load_text(text, "<pasted>"), "load")


def _save(session: Session, rest: str) -> Results:
    if not rest:
        raise HloError("save where?", notes=("use: save FILE",))
    text = session.current.module.to_text("default", large_constants=True)
    try:
        with open(expanduser(rest), "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
    except OSError as fault:
        raise HloError(f"cannot write {rest}: {reason_of(fault)}") from None
    yield Message(f"{session.current.label} written to {rest}")


def _show(session: Session, rest: str) -> Results:
    module = session.current.module
    if not rest:
        yield ModuleText(module.to_text("short", large_constants=False))
    elif rest == "--full":
        yield ModuleText(module.to_text("default", large_constants=True))
    elif rest.startswith("@"):
        yield _listing([session.find_computation(rest)], "*")
    elif "*" in rest or "?" in rest:
        yield _listing(list(module.computations), rest.removeprefix("%"))
    else:
        yield _info(session.find(rest))


def _listing(computations: list[Computation], pattern: str) -> Listing:
    groups = []
    for computation in computations:
        found = [i for i in instruction_order(computation) if fnmatchcase(i.name, pattern)]
        if found:
            groups.append((computation.name, tuple(map(line_of, found))))
    if not groups:
        raise HloError(f"no instruction matches {pattern!r}")
    return Listing(tuple(groups))


def _info(inst: Instruction) -> Info:
    return Info(
        line_of(inst),
        str(inst.shape),
        inst.computation.name,
        tuple(map(line_of, inst.operands)),
        tuple(map(line_of, inst.users)),
    )


def _passes(session: Session, rest: str) -> Results:
    from hloc.cli.list_commands import pass_summaries

    words = rest.split()
    try_out = "--effective" in words
    patterns = [word for word in words if not word.startswith("--")]
    known = pass_summaries()
    chosen = [row for row in known if all(p in row[0] or p in row[1] for p in patterns)]
    if not chosen:
        raise HloError(f"no pass matches {rest!r}")
    yield Effects(session.effects(chosen, try_out and session.is_loaded))


def _apply(session: Session, rest: str) -> Results:
    if not rest:
        raise HloError("apply what?", notes=("use: apply PASS,PASS... or apply -O2",))
    pipeline = _pipeline(rest)
    before = session.current
    done: list[Applied] = []
    for applied in session.apply(pipeline):
        done.append(applied)
        yield applied
    if len(done) > 1:
        now = session.current
        yield Message(
            f"{before.label} → {now.label}: {before.instructions:,} → {now.instructions:,} "
            "instructions"
        )


def _pipeline(text: str) -> Pipeline:
    from hloc import driver
    from hloc.options import CompileOptions

    if text in ("-O0", "-O1", "-O2", "-O3"):
        return driver.pipeline_of(CompileOptions(opt_level=int(text[2])))
    return Pipeline.parse(text)


def _step(session: Session, rest: str) -> Results:
    yield session.step(rest)


def _undo(session: Session, rest: str) -> Results:
    yield Moved(session.undo(_number(rest)), "undo")


def _redo(session: Session, rest: str) -> Results:
    yield Moved(session.redo(_number(rest)), "redo")


def _goto(session: Session, rest: str) -> Results:
    if not rest:
        raise HloError("go where?", notes=("use: goto s3",))
    yield Moved(session.goto(rest), "goto")


def _number(text: str) -> int:
    if not text:
        return 1
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 100000:
        raise HloError(f"expected a number of 1 or more, found {text!r}")
    return int(text)


def _diff(session: Session, rest: str) -> Results:
    words = rest.split()
    flags = [word for word in words if word.startswith("--")]
    states = [word for word in words if not word.startswith("--")]
    if len(states) > 2 or set(flags) - {"--text", "--all"}:
        raise HloError(f"cannot read {rest!r}", notes=("use: diff [A] [B] [--text] [--all]",))
    before, after = [*states, *["prev", "$"][len(states) :]][:2]
    if "--text" in flags:
        yield text_diff(session.state(before), session.state(after))
    else:
        yield session.diff(before, after, limit=None if "--all" in flags else DIFF_ROWS)


def _history(session: Session, rest: str) -> Results:
    yield session.history()


def _why(session: Session, rest: str) -> Results:
    if not rest:
        raise HloError("why what?", notes=("use: why %name",))
    yield session.why(rest)


def _stats(session: Session, rest: str) -> Results:
    yield session.stats()


def _inputs(session: Session, rest: str) -> Results:
    word, _, seed = rest.partition(" ")
    if word == "random":
        if seed and not seed.isdecimal():
            raise HloError(f"a seed is a number of 0 or more, not {seed!r}")
        yield Message(session.use_seed(int(seed or 0)))
    elif rest:
        yield Message(session.use_inputs(expanduser(rest)))
    else:
        raise HloError("which inputs?", notes=("use: inputs FILE.npz, or inputs random SEED",))


def _run(session: Session, rest: str) -> Results:
    if rest not in ("", "--interp"):
        raise HloError(f"cannot read {rest!r}", notes=("use: run [--interp]",))
    yield session.run(interpret=bool(rest))


def _verify(session: Session, rest: str) -> Results:
    states = rest.split()
    if len(states) > 2:
        raise HloError("verify takes at most two states")
    yield session.verify(*states)


def _help(session: Session, rest: str) -> Results:
    if not rest:
        yield Help(tuple(COMMANDS.values()))
        return
    name = ALIASES.get(rest, rest)
    if name in COMMANDS:
        yield Help((COMMANDS[name],))
        return
    from hloc.cli.list_commands import describe

    yield ModuleText(describe(rest))


def _quit(session: Session, rest: str) -> Results:
    yield Quit()


COMMANDS: dict[str, Command] = {
    row.name: row
    for row in (
        Command("load", "load FILE", "read a module; the history starts anew", _load, "file"),
        Command("save", "save FILE", "write the current state as HLO text", _save, "file"),
        Command(
            "show",
            "show [%name|@computation|glob*|--full]",
            "print the module, one instruction with its surroundings, or some instructions",
            _show,
            "instruction",
        ),
        Command(
            "passes",
            "passes [--effective] [WORD]",
            "list the passes; --effective tries out how many rewrites each would do here",
            _passes,
        ),
        Command(
            "apply",
            "apply PASS,PASS... | -O2",
            "run passes; each that changes something makes a new state",
            _apply,
            "pass",
        ),
        Command("step", "step [PASS]", "do one rewrite of a pass", _step, "pass"),
        Command("undo", "undo [N]", "go back by N states", _undo),
        Command("redo", "redo [N]", "go forward again", _redo),
        Command("goto", "goto sN", "make sN the current state", _goto, "state"),
        Command("history", "history", "show the tree of states", _history),
        Command(
            "diff",
            "diff [A] [B] [--text] [--all]",
            "compare two states, by default the one before with the current one",
            _diff,
            "state",
        ),
        Command("why", "why %name", "where an instruction came from, rule by rule", _why,
                "instruction"),
        Command("stats", "stats", "count opcodes, computations and bytes", _stats),
        Command("inputs", "inputs FILE.npz | random SEED", "choose the inputs of run", _inputs,
                "file"),
        Command("run", "run [--interp]", "compile and run this state, compare with s0", _run),
        Command(
            "verify", "verify [A] [B]", "evaluate two states on random inputs and compare",
            _verify, "state",
        ),
        Command("help", "help [WORD]", "commands, or one command, pass or opcode", _help,
                "command"),
        Command("quit", "quit", "leave", _quit),
    )
}  # fmt: skip

ALIASES = {"exit": "quit", "q": "quit", "?": "help", "s": "step", "ls": "show", "u": "undo"}


def instruction_names(session: Session) -> Iterator[tuple[str, str]]:
    """Yield the names of all instructions with their shape and opcode, for completion."""
    if session.is_loaded:
        for inst in all_instructions(session.current.module):
            yield inst.name, f"{inst.shape.text_without_layout} {inst.opcode.name}"
