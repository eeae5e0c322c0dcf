"""Simplify tuples and get-tuple-elements."""

from __future__ import annotations

from functools import cache
from typing import ClassVar

from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.opt.pass_base import PassContext
from hloc.opt.rewriter import rewrite
from hloc.opt.rule import RuleSet
from hloc.opt.rules.tuples import TUPLES


@dataclass(frozen=True)
class TupleSimplifier:
    """Replace get-tuple-element of a tuple by the operand, and a rebuilt tuple by its source.

    Cost: O(instructions).
    """

    name: ClassVar[str] = "tuple-simplifier"
    acts_on: ClassVar[frozenset[str]] = frozenset({"get-tuple-element", "tuple"})

    def run(self, module: Module, context: PassContext) -> bool:
        """Rewrite until no rule fires."""
        return rewrite(module, _rules(), context, self.name)


@cache
def _rules() -> RuleSet:
    return RuleSet.of(TUPLES)
