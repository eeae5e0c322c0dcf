"""Inside a pass: single rewrites, rules, breakpoints."""

from __future__ import annotations

from itertools import islice

from hloc.errors import HloError
from hloc.near_names import near_name_notes
from hloc.opt.pass_base import Remark
from hloc.opt.pipeline import Pipeline
from hloc.opt.registry import canonical_name
from hloc.report.text import plural
from repl.applying import go_on
from repl.breakpoints import KINDS
from repl.commands.passes import counting_idle
from repl.commands.row import Command, Results
from repl.passes import recipe_for
from repl.results import Message, Moved, Table
from repl.rules import Missed, find_rule, missed_rules, rule_place, rules_of
from repl.session import Session
from repl.state import State, lineage_of
from repl.stepping import rewrites_of, step

_MOST_MISSED = 60


def _step(session: Session, rest: str) -> Results:
    words = rest.split(" ", 1)
    if words[0] == "-b":
        yield _back(session)
        return
    count = 1
    if words[0].isdecimal() and 0 < int(words[0]) < 100000:
        count = int(words[0])
        rest = words[1] if len(words) > 1 else ""
    for _ in range(count):
        stepped = step(session, rest)
        yield stepped
        rest = ""
        if stepped.state is None:
            break


def _back(session: Session) -> Moved:
    if session.current.base is None:
        raise HloError("no rewrite to undo", notes=("undo reverts a whole pass",))
    return Moved(session.tree.undo(), "step back")


def _continue(session: Session, rest: str) -> Results:
    outcomes = go_on(session)
    with session.progress.work("passes"):
        yield from islice(outcomes, 1)
        yield from counting_idle(outcomes)


def _rules(session: Session, rest: str) -> Results:
    name = canonical_name(rest)
    rows = []
    for rule in rules_of(name):
        opcodes = ", ".join(rule.pattern.opcodes) or "any opcode"
        notes: list[str] = [rule.exactness] if rule.exactness != "exact" else []
        notes += ["disabled"] if rule.name in session.disabled_rules else []
        rows.append((rule.name, opcodes, rule_place(f"{name}/{rule.name}"), ", ".join(notes)))
    if not rows:
        raise HloError(f"{name} has no rules")
    heads = ("rule", "begins at", "written in", "")
    yield Table(f"{name}: {plural(len(rows), 'rule')}", heads, tuple(rows))


def _disable(session: Session, rest: str) -> Results:
    rule = find_rule(rest)
    session.disabled_rules[rule.name] = None
    session.stepping = None
    yield Message(f"{rule.name} is disabled")


def _enable(session: Session, rest: str) -> Results:
    session.stepping = None
    if rest == "all":
        session.disabled_rules.clear()
        yield Message("all rules are enabled")
        return
    rule = find_rule(rest)
    if rule.name not in session.disabled_rules:
        raise HloError(f"{rule.name} is not disabled")
    del session.disabled_rules[rule.name]
    yield Message(f"{rule.name} is enabled")


def _missed(session: Session, rest: str) -> Results:
    """List where a pass declined to act: its own remarks, and rules whose guard said no."""
    words = rest.split()
    pipeline = Pipeline.parse(words[0])
    if len(pipeline.passes) != 1 or len(words) > 2:
        raise HloError("missed takes one pass and one instruction", notes=("missed PASS [%name]",))
    (what,) = pipeline.passes
    inst = session.find(words[1]) if len(words) == 2 else None
    module = session.current.module
    remarks: list[Remark] = []
    recipe_for(session, what).run(module, remarks=remarks)
    found = [
        Missed(r.at, r.by, r.text)
        for r in dict.fromkeys(remarks)
        if r.kind == "missed" and (inst is None or inst.name in (r.at, *r.text.split()))
    ]
    fast = session.settings.is_on("fast-math")
    found += missed_rules(module, what.name, inst, frozenset(session.disabled_rules), fast)
    if not found:
        where = f" of {inst.name}" if inst is not None else ""
        text = f"{what.name} reported no missed optimisations{where} in {session.current.label}"
        yield Message(text + _where_it_ran(session.current, what.name))
        return
    rows = tuple((f"%{m.at}", m.by, m.reason) for m in found[:_MOST_MISSED])
    yield Table(f"{what.name}: {plural(len(found), 'time')} it declined", (), rows)


def _where_it_ran(state: State, name: str) -> str:
    """Return the state on which the pass ran last, on the way to `state`; "" if it did not."""
    ran_on = [s.parent for s in lineage_of(state) if s.how == name and s.parent is not None]
    return (
        f"; it ran on {ran_on[-1].label}: ask there, after goto {ran_on[-1].label}"
        if ran_on
        else ""
    )


# ---------------------------------------------------------------- breakpoints


def _break(session: Session, rest: str) -> Results:
    usage = "break pass P | rule R | op OPCODE | %name | if EXPRESSION | verify"
    kind, _, text = rest.partition(" ")
    text = text.strip()
    if kind.startswith("%"):
        kind, text = "instruction", kind[1:]
    if kind not in KINDS or (not text and kind != "verify"):
        near = near_name_notes(kind, list(KINDS))
        raise HloError(f"cannot read {rest!r}", notes=(*near, f"use: {usage}"))
    row = session.breaks.add(kind, text)
    yield Message(f"breakpoint {row}: {KINDS[row.kind]}")


def info_break(session: Session, rest: str) -> Results:
    """`info break`: list the breakpoints."""
    rows = tuple(
        (str(row.number), row.kind, row.text, f"hit {plural(row.hits, 'time')}", KINDS[row.kind])
        for row in session.breaks.rows
    )
    yield Table("" if rows else "no breakpoints", (), rows)


def delete_breakpoint(session: Session, rest: str) -> Results:
    """`delete N`: take back a breakpoint."""
    session.breaks.delete(None if rest in ("", "all") else int(rest))
    yield Message("all breakpoints deleted" if rest in ("", "all") else f"{rest} deleted")


ROWS = (
    Command("step", "step [N] [PASS] | step -b",
            "do one rewrite of a pass, or N; -b undoes the last", _step, "pass", True),
    Command("continue", "continue", "finish the current pass and continue",
            _continue, "", True),
    Command("rewrites", "rewrites [PASS]", "list the rewrites of a pass: rule, instruction, size",
            rewrites_of, "pass"),
    Command("rules", "rules PASS", "list the rules of a pass", _rules, "pass",
            question="rules of which pass?"),
    Command("disable", "disable RULE", "disable a rule", _disable, "rule", True,
            question="disable which rule?"),
    Command("enable", "enable RULE | all", "enable a rule", _enable, "rule", True,
            question="enable which rule?"),
    Command("missed", "missed PASS [%name]", "why a pass left instructions unchanged", _missed,
            "pass", question="missed by which pass?"),
    Command("break", "break pass P | rule R | op OPCODE | %name | if EXPR | verify",
            "set a breakpoint; EXPR such as instructions > 500 and count(reduce) == 0",
            _break, "instruction", True, question="break where?"),
)  # fmt: skip
