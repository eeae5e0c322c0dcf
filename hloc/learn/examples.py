"""Examples of rules: each must parse, the rule must fire in it and keep the results."""

from __future__ import annotations

from types import ModuleType

import hloc
from hloc.errors import HloError, InternalError
from hloc.ir.verifier import verify
from hloc.learn.equivalence import counterexample, input_lists
from hloc.learn.report import Finding
from hloc.opt.authoring import AuthoredRule, Pass
from hloc.opt.pass_base import PassContext


def rules_in(file: ModuleType) -> list[AuthoredRule]:
    """Return the rules of a student's file, those inside its passes too, each once."""
    found: dict[int, AuthoredRule] = {}
    for value in vars(file).values():
        for rule in value.rules if isinstance(value, Pass) else (value,):
            if isinstance(rule, AuthoredRule):
                found.setdefault(id(rule), rule)
    return list(found.values())


def check_examples(file: ModuleType) -> list[Finding]:
    """Return a finding for every rule of `file` that has an example."""
    return [
        Finding(f"the example of rule {rule.name} ({rule.where})", not fault, fault)
        for rule in rules_in(file)
        if rule.example
        for fault in [_fault(rule)]
    ]


def _fault(rule: AuthoredRule) -> str:
    """Return what is wrong with the example of `rule`, "" if nothing is."""
    try:
        before, after = hloc.parse(rule.example), hloc.parse(rule.example)
        context = PassContext(fast_math=True)
        Pass("example", [rule]).as_class()().run(after, context)
        verify(after)
    except HloError as fault:
        return fault.message
    except InternalError as fault:
        return str(fault)
    if not context.rewrites:
        return "the rule does not fire in it"
    if context.warnings:
        return context.warnings[0]
    compare = "exact" if rule.exactness == "exact" else "tolerance"
    return counterexample(before, after, input_lists(before, compare), compare)
