"""The description of a pass, a rule or an opcode as text, read from hloc's own tables."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

from hloc.errors import HloError
from hloc.ir.attribute_fields import AttributeField, attribute_fields
from hloc.near_names import did_you_mean
from hloc.ops import OPCODES, Opcode
from hloc.opt import registry
from hloc.opt.authoring.rules import AuthoredRule
from hloc.opt.pass_base import option_kind
from hloc.opt.registry import ALIASES, PASSES, canonical_name, has_pass, is_in_library, pass_class
from hloc.opt.rule import Rule
from hloc.prove.record import proof_text
from hloc.report.law_text import law
from hloc.report.opcode_examples import example_of


def describe(name: str) -> str:
    """Return the description of a pass or an opcode.

    Raises:
        HloError: neither has that name.
    """
    if has_pass(name):
        return describe_pass(name)
    if name in OPCODES:
        return describe_opcode(name)
    near = did_you_mean(name, [*PASSES, *OPCODES])
    raise HloError(f"no command, pass or opcode named {name!r}{near}")


# ---------------------------------------------------------------- passes


def pass_summaries() -> list[tuple[str, str]]:
    """Return names and first lines of the documentation of all passes."""
    return [(name, _first_line(pass_class(name))) for name in sorted(PASSES)]


def describe_pass(name: str) -> str:
    """Return name, aliases, documentation and options of a pass.

    Raises:
        HloError: there is no such pass.
    """
    cls = pass_class(name)
    shown = canonical_name(name)
    aliases = _aliases(shown)
    lines = [shown + (f"  (also {', '.join(aliases)})" if aliases else ""), ""]
    if is_in_library(shown):
        lines += ["  library pass: runs only when --passes names it", ""]
    lines += [f"  {line}".rstrip() for line in _documentation(cls)]
    options = _options(cls)
    if options:
        lines += ["", "  options:"]
    for field in options:
        default = str(field.default).lower() if option_kind(field) == "bool" else field.default
        lines.append(f"    {field.name.replace('_', '-')}={default}")
    return "\n".join(lines)


def pass_data(name: str) -> dict[str, Any]:
    """Return the JSON of a pass; errors as for `describe_pass`."""
    cls, shown = pass_class(name), canonical_name(name)
    return {
        "name": shown,
        "aliases": _aliases(shown),
        "library": is_in_library(shown),
        "text": "\n".join(_documentation(cls)),
        "options": {o.name.replace("_", "-"): str(o.default) for o in _options(cls)},
    }


def _aliases(name: str) -> list[str]:
    """Return the other names of a pass."""
    return sorted(alias for alias, target in ALIASES.items() if target == name)


def _options(cls: type) -> list[dataclasses.Field[Any]]:
    """Return the fields of a pass that are its options."""
    return [field for field in dataclasses.fields(cls) if field.init]


def _first_line(documented: object) -> str:
    return _documentation(documented)[0]


def _documentation(documented: object) -> list[str]:
    return (inspect.getdoc(documented) or "").splitlines() or [""]


# ---------------------------------------------------------------- rules


def all_rules() -> list[Rule]:
    """Return all rewrite rules by name."""
    return sorted(registry.all_rules(), key=lambda rule: rule.name)


def rule_summary(rule: Rule) -> str:
    """Return the law of a rule and how exact it is; a plug-in's rule states its own law."""
    if isinstance(rule, AuthoredRule):
        text = ", ".join(rule.pattern.opcodes) or "any opcode"
    else:
        text = law(rule).replace("`", "")
    return text if rule.exactness == "exact" else f"{text}  ({rule.exactness})"


def rule_data(rule: Rule) -> dict[str, Any]:
    """Return the JSON of a rule; a rule without opcodes matches any root."""
    kind = {"opcodes": rule.pattern.opcodes, "exactness": rule.exactness}
    return {"name": rule.name, "law": rule_summary(rule), "proof": proof_text(rule), **kind}


# ---------------------------------------------------------------- opcodes


def describe_opcode(name: str) -> str:
    """Return the row of an opcode as text.

    Raises:
        HloError: there is no such opcode.
    """
    row = _row(name)
    lines = [row.name, f"  {row.reads}"]
    operands = "any number" if row.arity is None else str(row.arity)
    lines.append(f"  operands: {operands}")
    lines += [f"  attribute: {_attribute(field)}" for field in _fields(row)]
    for role in row.calls:
        kind = "list of computations" if role.many else "computation"
        lines.append(f"  attribute: {role.name}  {kind}{', optional' if role.optional else ''}")
    flags = (field.name for field in dataclasses.fields(Opcode) if isinstance(field.default, bool))
    named = [flag.replace("_", " ") for flag in flags if getattr(row, flag)]
    if named:
        lines.append(f"  flags: {', '.join(named)}")
    evaluator = f"no: {row.refusal}" if row.refusal else "yes"
    lines.append(f"  runs on one device: {evaluator}")
    lines.append(f"  shape rule: {_first_line(row.infer)}")
    example = example_of(name).text().strip().splitlines()
    lines += ["", "  example:", *(f"    {line}".rstrip() for line in example)]
    return "\n".join(lines)


def opcode_data(name: str) -> dict[str, Any]:
    """Return the JSON of an opcode; errors as for `describe_opcode`."""
    row = _row(name)
    return {
        "name": row.name,
        "reads": row.reads,
        "operands": row.arity,
        "attributes": [
            {"name": f.name, "kind": f.kind, "required": f.required, "choices": list(f.choices)}
            for f in _fields(row)
        ],
        "calls": [role.name for role in row.calls],
        "refusal": row.refusal,
        "example": example_of(name).text(),
    }


def _row(name: str) -> Opcode:
    if name not in OPCODES:
        raise HloError(f"there is no opcode {name!r}{did_you_mean(name, OPCODES)}")
    return OPCODES[name]


def _fields(row: Opcode) -> tuple[AttributeField, ...]:
    return attribute_fields(row.attributes) if row.attributes else ()


def _attribute(field: AttributeField) -> str:
    if field.required:
        need = "required"
    else:
        need = f"default {field.default!r}" if field.default not in (None, "", ()) else "optional"
    choices = f" of {', '.join(field.choices)}" if field.choices else ""
    return f"{field.name}  {field.kind.replace('_', ' ')}{choices}, {need}"
