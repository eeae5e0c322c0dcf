"""A rewrite rule: a named row of pattern, guard and builder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.opt.pattern import Found, P

Exactness: TypeAlias = Literal["exact", "ignores-zero-sign", "reassociates", "assumes-finite"]
"""How a rule may change a result.

`exact`: not at all (except the payload and sign of a NaN). `ignores-zero-sign`: -0 may become +0.
`reassociates`: roundings differ. `assumes-finite`: wrong where an infinity or NaN takes part.
All but `exact` need fast_math.
"""

Build: TypeAlias = Callable[[Computation, Instruction, Found], Instruction | None]
"""Return the replacement, or None to decline without having added anything."""

Guard: TypeAlias = Callable[[Instruction, Found], bool]


@dataclass(frozen=True, slots=True)
class Rule:
    """One law.

    Attributes:
        name: kebab-case, unique; seen in logs, goldens and `--disable-rule`.
        pattern: the pattern to match; the opcodes of its root index the rule.
        build: builds the replacement, of exactly the same shape.
        when: guard on the whole match.
        exactness: see `Exactness`.
    """

    name: str
    pattern: P
    build: Build
    when: Guard | None = None
    exactness: Exactness = "exact"


@dataclass(frozen=True, slots=True, eq=False)
class RuleSet:
    """Rules by the opcode of their root, in the order they are tried: those that name none last.

    Compared by identity.

    Attributes:
        by_opcode: those for any opcode included.
        for_any: rules whose root may have any opcode.
    """

    by_opcode: dict[str, tuple[Rule, ...]]
    for_any: tuple[Rule, ...]

    @staticmethod
    def of(rules: Sequence[Rule]) -> RuleSet:
        """Index `rules`, keeping their order."""
        by_opcode: dict[str, list[Rule]] = {}
        for rule in sorted(rules, key=lambda rule: not rule.pattern.opcodes):
            for opcode in rule.pattern.roots:
                by_opcode.setdefault(opcode, []).append(rule)
        for_any = tuple(rule for rule in rules if not rule.pattern.roots)
        return RuleSet({o: (*found, *for_any) for o, found in by_opcode.items()}, for_any)

    def for_opcode(self, opcode: str) -> tuple[Rule, ...]:
        """Return the rules whose root may have `opcode`."""
        return self.by_opcode.get(opcode, self.for_any)
