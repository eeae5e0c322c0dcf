"""Look at the current module."""

from __future__ import annotations

from fnmatch import fnmatchcase

from hloc.analysis.diff.module_lines import line_of
from hloc.analysis.diff.provenance import trace
from hloc.analysis.statistics import module_statistics
from hloc.errors import HloError
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.print_order import instruction_order
from hloc.ir.printer import print_instruction
from hloc.options import GROUPINGS
from hloc.report.statistics_text import overview, table_by
from repl.commands.row import Command, Results, number_of, split_flags
from repl.looking import (
    blame_table,
    computations_table,
    cost_table,
    facts_of,
    find_pattern,
    grep,
    grouped,
    path_between,
    source_table,
    tree_of,
)
from repl.results import Info, Listing, ModuleText, Report, Table
from repl.session import Session

_LINES = 10
_MOST_ROWS = 25
_SHOW = "show [%name|@computation|glob*] [--full|--short|--tree]"


def _show(session: Session, rest: str) -> Results:
    """Show the module, a computation (`@name`), instructions by pattern, or one instruction."""
    words, flags = split_flags(rest, ("--full", "--short", "--tree"), _SHOW)
    module = session.current.module
    style = "default" if "--full" in flags else "short"
    if not words:
        if "--tree" in flags:
            yield tree_of(module.entry.root)
        else:
            yield ModuleText(module.to_text(style, large_constants="--full" in flags))
        return
    name = words[0]
    if name == "$":
        yield from _show(session, " ".join(sorted(flags)))
    elif name.startswith("@"):
        computation = session.find_computation(name)
        if "--tree" in flags:
            yield tree_of(computation.root)
        elif "--full" in flags:
            lines = (print_instruction(i, "default") for i in instruction_order(computation))
            yield ModuleText("\n".join(lines))
        else:
            yield _listing([computation], "*")
    elif "*" in name or "?" in name:
        yield _listing(list(module.computations), name.removeprefix("%"))
    else:
        inst = session.find(name)
        if "--tree" in flags:
            yield tree_of(inst)
        elif flags:
            yield ModuleText(print_instruction(inst, style))
        else:
            yield _info(inst)


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


def _users(session: Session, rest: str) -> Results:
    inst = session.find(rest)
    yield _lines_of(tuple(inst.users), f"{inst.name} has no users")


def _operands(session: Session, rest: str) -> Results:
    inst = session.find(rest)
    yield _lines_of(inst.operands, f"{inst.name} has no operands")


def _lines_of(insts: tuple[Instruction, ...], none: str) -> object:
    return grouped(insts) if insts else Table(none, (), ())


def _ls(session: Session, rest: str) -> Results:
    yield computations_table(session.current.module, rest.lstrip("@%"))


def _stats(session: Session, rest: str) -> Results:
    words = rest.replace("=", " ").split()
    state = session.current
    found = module_statistics(state.module)
    if not words:
        yield Report("\n".join(overview(found, state.label, ("opcode",))))
    elif words[0] == "--by" and len(words) == 2 and words[1] in GROUPINGS:
        yield Report("\n".join(table_by(found, words[1], _MOST_ROWS)))
    else:
        raise HloError(f"cannot read {rest!r}", notes=(f"use: stats [--by {'|'.join(GROUPINGS)}]",))


def _path(session: Session, rest: str) -> Results:
    words = rest.split()
    if len(words) != 2:
        raise HloError("path takes two instructions", notes=("use: path %a %b",))
    yield grouped(path_between(session.find(words[0]), session.find(words[1])))


def _head(session: Session, rest: str) -> Results:
    lines = _short_lines(session)
    yield ModuleText("\n".join(lines[: number_of(rest, _LINES)]))


def _tail(session: Session, rest: str) -> Results:
    lines = _short_lines(session)
    yield ModuleText("\n".join(lines[-number_of(rest, _LINES) :]))


def _short_lines(session: Session) -> list[str]:
    text = session.current.module.to_text("short", large_constants=False)
    return text.rstrip("\n").split("\n")


ROWS = (
    Command(
        "show", _SHOW,
        "print the module, an instruction with its context, or matching instructions",
        _show, "instruction",
    ),
    Command("info", "info %name | info break",
            "details of an instruction: shape, cost, live range, origin",
            lambda session, rest: facts_of(session.find(rest)), "instruction",
            question="info what?"),
    Command("users", "users %name", "list the users of an instruction", _users, "instruction",
            question="users what?"),
    Command("operands", "operands %name", "list the operands of an instruction",
            _operands, "instruction", question="operands what?"),
    Command("ls", "ls [@WORD]", "list computations", _ls, "computation"),
    Command("stats", "stats [--by opcode|dtype|scope|computation|source]",
            "count opcodes, computations and bytes", _stats),
    Command("cost", "cost", "operations and bytes of one run, by instruction",
            lambda session, _rest: cost_table(session.current.module)),
    Command("src", "src %name", "the Python source lines of an instruction",
            lambda session, rest: source_table(session.find(rest)),
            "instruction", question="src what?"),
    Command("grep", "grep RE", "instructions matching a regular expression",
            lambda session, rest: grep(session.current.module, rest),
            question="grep what?"),
    Command("find", "find PATTERN",
            "instructions matching a pattern: reduce(multiply(_,_)), add(x:_,x:_)",
            lambda session, rest: find_pattern(session.current.module, rest.strip("\"'")),
            question="find what?"),
    Command("path", "path %a %b", "a data-flow path between two instructions", _path,
            "instruction"),
    Command("head", "head [N]", "the first lines of the module", _head),
    Command("tail", "tail [N]", "the last lines of the module", _tail),
    Command("why", "why %name", "the rewrites that led to an instruction",
            lambda session, rest: trace(session.lineage(), rest.removeprefix("%")),
            "instruction", question="why what?"),
    Command("blame", "blame %name", "the pass and rule behind each part of an instruction",
            blame_table,
            "instruction", question="blame what?"),
)  # fmt: skip
