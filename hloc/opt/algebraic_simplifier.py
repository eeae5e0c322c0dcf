"""Algebraic rewrite rules, applied until none fires."""

from __future__ import annotations

from functools import cache
from typing import ClassVar

from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.opt.pass_base import PassContext
from hloc.opt.registry import registered_rules
from hloc.opt.rewriter import rewrite
from hloc.opt.rule import Rule, RuleSet
from hloc.opt.rules import ALGEBRAIC, ALL_RULES

RULES = ALL_RULES
"""Every rewrite rule, for listings."""


@dataclass(frozen=True)
class AlgebraicSimplifier:
    """Apply the rules of `hloc/opt/rules`, and those of plug-ins, to every computation.

    Rules that are not exact fire only under fast_math. Removes instructions that become dead. Cost:
    O(instructions + rewrites).
    """

    name: ClassVar[str] = "algebraic-simplifier"

    def run(self, module: Module, context: PassContext) -> bool:
        """Rewrite until no rule fires."""
        return rewrite(module, _rules(registered_rules()), context, self.name)


@cache
def _rules(added: tuple[Rule, ...]) -> RuleSet:
    return RuleSet.of((*ALGEBRAIC, *added))
