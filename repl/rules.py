"""Queries on rules: which a pass has, where they are defined, why they do not fire."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from hloc.errors import HloError
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import all_instructions
from hloc.lazy_dataclass import dataclass
from hloc.near_names import near_name_notes
from hloc.opt import rules
from hloc.opt.pattern import match
from hloc.opt.registry import PASSES, all_rules, canonical_name, pass_class, registered_rules
from hloc.opt.rule import Rule, RuleSet
from hloc.opt.rules import ALGEBRAIC, ALL_RULES
from hloc.opt.rules.tuples import TUPLES

_QUOTED = re.compile(r'"([a-z0-9-]+)"')


@dataclass(frozen=True, slots=True)
class Missed:
    """Why a rule or a pass did not rewrite an instruction; `by` is `pass/rule` or `pass`."""

    at: str
    by: str
    reason: str


def rules_of(pass_name: str) -> tuple[Rule, ...]:
    """Return the rules of a pass, () for one without rules."""
    name = canonical_name(pass_name)
    if name == "algebraic-simplifier":
        return (*ALGEBRAIC, *registered_rules())
    if name == "tuple-simplifier":
        return TUPLES
    found: tuple[Rule, ...] = getattr(pass_class(name), "rule_rows", ())
    return found


def find_rule(name: str) -> Rule:
    """Return the rule called `name`, or `pass/name`.

    Raises:
        HloError: there is none.
    """
    wanted = name.rpartition("/")[2]
    found = {rule.name: rule for rule in all_rules()}
    if wanted not in found:
        raise HloError(f"there is no rule {wanted!r}", notes=near_name_notes(wanted, found))
    return found[wanted]


def place_of(function: Callable[..., Any] | None) -> str:
    """Return where a function is defined, `arithmetic.py:41`; "" if unknown."""
    code = getattr(function, "__code__", None)
    if code is None:
        return ""
    return f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}"


def rule_place(by: str) -> str:
    """Return where the rule of `pass/rule` is defined, "" for a pass without rules."""
    what, _, name = by.partition("/")
    places = _written_rules()
    if name in places or not name:
        return places.get(name, "")
    of_pass = rules_of(what) if what in PASSES else ()
    found = next((rule for rule in (*of_pass, *registered_rules()) if rule.name == name), None)
    return (getattr(found, "where", "") or place_of(found.build)) if found else ""


@cache
def _written_rules() -> dict[str, str]:
    """Return the place of each rule of hloc, by name."""
    known = {rule.name for rule in ALL_RULES}
    found: dict[str, str] = {}
    for path in sorted(Path(rules.__file__).parent.glob("*.py")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for name in _QUOTED.findall(line):
                if name in known:
                    found.setdefault(name, f"{path.name}:{number}")
    return found


def missed_rules(
    module: Module, pass_name: str, inst: Instruction | None, disabled: frozenset[str], fast: bool
) -> Iterator[Missed]:
    """Yield why rules of a pass do not fire.

    Args:
        module: the current module.
        pass_name: a pass; one without rules yields nothing.
        inst: the only instruction to examine, for which patterns that do not match are reported
            too; None for all instructions and only the patterns that match.
        disabled: rules that may not fire.
        fast: inexact rules may fire.
    """
    ruleset = RuleSet.of(rules_of(pass_name))
    for at in [inst] if inst is not None else all_instructions(module):
        for rule in ruleset.for_opcode(at.opcode.name):
            reason = _reason(rule, at, disabled, fast)
            if reason and (inst is not None or reason != _OTHER_FORM):
                yield Missed(at.name, f"{canonical_name(pass_name)}/{rule.name}", reason)


_OTHER_FORM = "its pattern has another form"


def _reason(rule: Rule, inst: Instruction, disabled: frozenset[str], fast: bool) -> str:
    """Return why `rule` does not rewrite `inst`, "" if it would be tried."""
    found = match(rule.pattern, inst)
    if found is None:
        return _OTHER_FORM
    if rule.name in disabled:
        return "it fits, but is disabled"
    if rule.exactness != "exact" and not fast:
        return f"it fits, but {rule.exactness}: needs set fast-math=on"
    if rule.when is not None and not rule.when(inst, found):
        return f"it fits, but its guard {_guard_name(rule)} says no"
    return ""


def _guard_name(rule: Rule) -> str:
    name = getattr(rule.when, "__name__", "")
    place = place_of(rule.when)
    shown = "" if name in ("", "<lambda>") else name
    return f"{shown} ({place})".strip() if place else shown
