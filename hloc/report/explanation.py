"""Explanations of diagnostics, passes, rules and opcodes.

Diagnostics are explained without the tables of passes and opcodes, which take long to load.
"""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill, indent
from typing import TYPE_CHECKING

from hloc.diagnostics import EXPLANATIONS, Explanation
from hloc.errors import HloError, printable
from hloc.near_names import did_you_mean
from hloc.report.exits import EXIT_CODES

if TYPE_CHECKING:
    from hloc.opt.rule import Rule

EXIT_CODE_WORD = "exit-codes"
_WIDTH = 96


def explanation_of(name: str, more: Sequence[str] = ()) -> str:
    """Return the explanation of `name`, of all its meanings.

    Args:
        name: name of a diagnostic, a pass, a rule or an opcode, or `exit-codes`.
        more: further text of the caller about it.

    Raises:
        HloError: nothing has that name.
    """
    code = name.upper()
    if code in EXPLANATIONS:
        found = [_code_text(EXPLANATIONS[code])]
    elif name == EXIT_CODE_WORD:
        found = ["\n".join(f"{int(exit):3d}  {meaning}" for exit, meaning in EXIT_CODES)]
    else:
        found = _named_in_tables(name)
    found += more
    if not found:
        raise HloError(f"nothing named {printable(name)!r} to explain{_hint(name)}")
    return "\n\n".join(found)


def _named_in_tables(name: str) -> list[str]:
    from hloc.ops import OPCODES
    from hloc.opt.registry import has_pass, rules_of_passes
    from hloc.report.describe import all_rules, describe_opcode, describe_pass, rule_summary

    found: list[str] = []
    if has_pass(name):
        found.append(f"pass {describe_pass(name)}")
    found += [
        f"rule {rule.name}\n  {rule_summary(rule)}" for rule in all_rules() if rule.name == name
    ]
    found += [_rule_text(rule) for rule in rules_of_passes() if rule.name == name]
    if name in OPCODES:
        found.append(f"opcode {describe_opcode(name)}")
    return found


def _hint(name: str) -> str:
    from hloc.ops import OPCODES
    from hloc.opt.registry import ALIASES, PASSES, rules_of_passes
    from hloc.report.describe import all_rules

    rules = [rule.name for rule in (*all_rules(), *rules_of_passes())]
    known = [*EXPLANATIONS, EXIT_CODE_WORD, *PASSES, *ALIASES, *rules, *OPCODES]
    return did_you_mean(name, known) or did_you_mean(name.upper(), known)


def _rule_text(rule: Rule) -> str:
    """Return the documentation of a plug-in's rule, and the place of its source."""
    from hloc.report.describe import rule_summary

    place = f"  {rule_summary(rule)}  {getattr(rule, 'where', '')}".rstrip()
    doc = indent(getattr(rule, "doc", ""), "  ")
    return "\n".join(filter(None, (f"rule {rule.name}", place, doc)))


def _code_text(row: Explanation) -> str:
    lines = [f"{row.code}: {row.title}", "", fill(row.text, _WIDTH)]
    if row.example:
        example = "\n".join(map(printable, row.example.rstrip().split("\n")))
        lines += ["", "for example", "", indent(example, "    ")]
    return "\n".join([*lines, "", fill(row.remedy, _WIDTH)])
