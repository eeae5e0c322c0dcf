"""Explanations of diagnostics, passes, rules and opcodes."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill, indent

from hloc.diagnostics import EXPLANATIONS, Explanation
from hloc.errors import HloError, printable
from hloc.near_names import did_you_mean
from hloc.ops import OPCODES
from hloc.opt.registry import ALIASES, PASSES, has_pass, rules_of_passes
from hloc.opt.rule import Rule
from hloc.report.describe import all_rules, describe_opcode, describe_pass, rule_summary
from hloc.report.exits import EXIT_CODES

EXIT_CODE_WORD = "exit-codes"
_WIDTH = 96


def explanation_of(name: str, more: Sequence[str] = ()) -> str:
    """Return what there is to say about `name`; of several meanings, all.

    Args:
        name: of a diagnostic, a pass, a rule, an opcode, or `exit-codes`.
        more: what the caller has to say about it besides.

    Raises:
        HloError: nothing has that name.
    """
    found: list[str] = []
    code = name.upper()
    if code in EXPLANATIONS:
        found.append(_code_text(EXPLANATIONS[code]))
    if name == EXIT_CODE_WORD:
        found.append("\n".join(f"{int(exit):3d}  {meaning}" for exit, meaning in EXIT_CODES))
    if has_pass(name):
        found.append(f"pass {describe_pass(name)}")
    found += [
        f"rule {rule.name}\n  {rule_summary(rule)}" for rule in all_rules() if rule.name == name
    ]
    found += [_rule_text(rule) for rule in rules_of_passes() if rule.name == name]
    if name in OPCODES:
        found.append(f"opcode {describe_opcode(name)}")
    found += more
    if not found:
        raise HloError(f"nothing named {printable(name)!r} to explain{_hint(name)}")
    return "\n\n".join(found)


def _hint(name: str) -> str:
    rules = [rule.name for rule in (*all_rules(), *rules_of_passes())]
    known = [*EXPLANATIONS, EXIT_CODE_WORD, *PASSES, *ALIASES, *rules, *OPCODES]
    return did_you_mean(name, known) or did_you_mean(name.upper(), known)


def _rule_text(rule: Rule) -> str:
    """Return what a rule of a plug-in says of itself, and where it is written."""
    place = f"  {rule_summary(rule)}  {getattr(rule, 'where', '')}".rstrip()
    doc = indent(getattr(rule, "doc", ""), "  ")
    return "\n".join(filter(None, (f"rule {rule.name}", place, doc)))


def _code_text(row: Explanation) -> str:
    lines = [f"{row.code}: {row.title}", "", fill(row.text, _WIDTH)]
    if row.example:
        example = "\n".join(map(printable, row.example.rstrip().split("\n")))
        lines += ["", "for example", "", indent(example, "    ")]
    return "\n".join([*lines, "", fill(row.remedy, _WIDTH)])
