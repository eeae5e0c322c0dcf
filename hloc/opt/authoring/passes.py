"""`Pass`: a list of rules under a name; `ModulePass`: a pass with its own walk over the module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from hloc.errors import HloError
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.opt.authoring.rules import AuthoredRule
from hloc.opt.pass_base import PassContext
from hloc.opt.registry import register_pass
from hloc.opt.rewriter import rewrite
from hloc.opt.rule import Rule, RuleSet


class Pass:
    """A pass that applies its rules to a fixpoint: `simplify = Pass("my-simplify", rules=[...])`.

    Removes dead instructions as it goes. Each rewrite counts as `my-simplify/mul-zero`, so single
    steps, `why`, `--trace-rewrites` and bisection work as for the passes of hloc.

    Args:
        name: kebab-case, not that of a pass of hloc.
        rules: from `@rule`, or `hloc.opt.rule.Rule` rows; tried in this order.
        doc: its purpose.
    """

    def __init__(self, name: str, rules: Sequence[Rule], doc: str = "") -> None:
        for rule in rules:
            if not isinstance(rule, Rule):
                raise HloError(
                    f"pass {name!r}: {getattr(rule, '__name__', rule)!r} is no rule",
                    notes=("put @rule(pattern) above the function",),
                )
        names = [rule.name for rule in rules]
        twice = [known for known in dict.fromkeys(names) if names.count(known) > 1]
        if twice:
            raise HloError(f"pass {name!r} has two rules called {twice[0]!r}")
        self.name = name
        self.rules = tuple(rules)
        self.doc = doc or f"Rules of a plug-in: {', '.join(names) or 'none'}."

    def as_class(self) -> type[Any]:
        """Return the pass class that hloc registers."""
        rows, rules, pass_name = self.rules, RuleSet.of(self.rules), self.name

        @dataclass(frozen=True)
        class RulePass:
            name: ClassVar[str] = pass_name
            rule_rows: ClassVar[tuple[Rule, ...]] = rows

            def run(self, module: Module, context: PassContext) -> bool:
                return rewrite(module, rules, context, pass_name)

        RulePass.__doc__ = self.documentation()
        RulePass.__name__ = RulePass.__qualname__ = "RulePass"
        return RulePass

    def documentation(self) -> str:
        """Return the text of `hloc explain`: each rule with its place, law and exactness."""
        lines = [self.doc, ""]
        for rule in self.rules:
            about = [rule.where] if isinstance(rule, AuthoredRule) else []
            about += [rule.exactness] if rule.exactness != "exact" else []
            lines.append(f"{rule.name}  ({', '.join(about)})" if about else rule.name)
            if isinstance(rule, AuthoredRule):
                lines += [f"  {line}" for line in rule.doc.splitlines()]
        return "\n".join(lines)


class ModulePass:
    """Base class of passes with their own walk: define `name` and `run(module, context)`.

    `run` returns True exactly when it changed something; each rewrite is done inside
    `with context.rewriting(module, self.name)`, after checking `context.spent`. Fields with a
    default are options,
    as for any pass: `limit: int = 3`.
    """

    name: ClassVar[str] = ""

    def run(self, module: Module, context: PassContext) -> bool:
        """Change `module`; True if it did."""
        raise HloError(f"pass {self.name!r} has no method run(module, context)")


def passes_of(names: Mapping[str, Any], module_name: str) -> dict[str, type[Any]]:
    """Return the pass classes among the global names of a file, by pass name.

    These are its `Pass` objects and the subclasses of `ModulePass` that it defines.
    """
    found: dict[str, type[Any]] = {}
    for value in names.values():
        if isinstance(value, Pass):
            found[value.name] = value.as_class()
        elif _is_own_pass(value, module_name):
            found[value.name] = _as_dataclass(value)
    return found


def _is_own_pass(value: object, module_name: str) -> bool:
    """True for a subclass of `ModulePass` with a name that is defined in the module itself."""
    is_pass = isinstance(value, type) and issubclass(value, ModulePass) and bool(value.name)
    return is_pass and value.__module__ == module_name


def register_found(names: Mapping[str, Any], module_name: str) -> None:
    """Register the passes among the global names of a plug-in.

    Raises:
        HloError: a name is taken or not kebab-case, or an option has an unsupported type.
    """
    for cls in passes_of(names, module_name).values():
        register_pass(cls)


def _as_dataclass(cls: type[Any]) -> type[Any]:
    if "__dataclass_fields__" in cls.__dict__:
        return cls
    return dataclass(frozen=True)(cls)
