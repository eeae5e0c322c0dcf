"""A rewrite rule never makes worse code: shown by the golden cases in which it fires.

The passes of a case run with that rule as the only one, and with none; `dce` ends both. Cost is
arithmetic plus bytes, then the number of instructions. What no kernel writes to memory
(constants, broadcasts, reshapes, iotas, tuples) costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import pytest

import hloc
from hloc.analysis.cost import instruction_cost, module_cost
from hloc.ir.module import Module
from hloc.opt.pass_base import PassContext
from hloc.opt.pipeline import Pipeline
from hloc.opt.rules import ALL_RULES
from tests.goldens import Case, all_cases

RULES = frozenset(rule.name for rule in ALL_RULES)
FREE = frozenset(
    {
        "bitcast",
        "broadcast",
        "constant",
        "get-tuple-element",
        "iota",
        "parameter",
        "reshape",
        "tuple",
    }
)
_TRANSCENDENTAL = 20  # operations; an exponential takes 15 to 25

DEARER = {
    "divide-by-exponential": "a division takes four to ten times a multiplication and counts as "
    "much here; the negation is fused",
    "divide-by-power": "the same",
    "divide-by-broadcast": "the same; there are fewer reciprocals than quotients",
    "broadcast-as-transpose": "other rules and layout-assignment know transpositions; one kernel "
    "in either case",
    "reduce-one-element": "an elementwise operation, which fuses where a reduction does not; the "
    "initial value counts with all its copies",
    "reduce-broadcast-sum": "one multiplication per sum; the factor counts with all copies",
    "reduce-broadcast-float-sum": "the same",
    "dot-of-one": "an elementwise product, which fuses; operands count with all their copies",
    "dynamic-slice-iota": "the start becomes the result; it is clamped, and no iota is left",
    "dynamic-slice-dynamic-slice": "arithmetic of two scalars for an array that is not copied",
    "dynamic-update-slice-as-pad": "an update in place is only counted as cheap: its operand, "
    "a broadcast, has to be written first",
    "dynamic-update-slice-as-concatenate": "of few elements, which registers hold in a loop",
}
"""Rules that cost more by this count in a golden case, and why they are right."""


@dataclass(frozen=True, slots=True, order=True)
class Cost:
    """Ordered as a rule should: work first, then instructions."""

    work: int
    instructions: int


def cost_of(module: Module) -> Cost:
    """Return arithmetic and bytes of a module, and how many instructions do them."""
    every = [inst for computation in module.computations for inst in computation.instructions]
    free = [inst for inst in every if inst.opcode.name in FREE]
    total = module_cost(module)
    moved = total.bytes - sum(instruction_cost(i, lambda _: total).bytes for i in free)
    work = total.flops + _TRANSCENDENTAL * total.transcendentals + moved
    return Cost(work, len(every) - len(free))


def result_of(case: Case, rules: frozenset[str]) -> tuple[Cost, bool]:
    """Return what is left after the passes of a case with these rules, and if one has fired."""
    module = hloc.parse(case.text)
    context = PassContext(fast_math=case.fast_math, disabled_rules=RULES - rules)
    Pipeline.parse(f"{case.passes},dce").run(module, context)
    return cost_of(module), any(by.rpartition("/")[2] in rules for by in context.fired)


@cache
def cases_by_rule() -> dict[str, list[Case]]:
    """Return the cases in which each rule is said to fire."""
    found: dict[str, list[Case]] = {name: [] for name in RULES}
    for case in all_cases("opt"):
        for name in case.fires:
            found.get(name, []).append(case)
    return found


def worse_cases(name: str) -> list[str]:
    """Return what is dearer with the rule than without; at least one case must be comparable."""
    worse, compared = [], 0
    for case in cases_by_rule()[name]:
        after, fired = result_of(case, frozenset({name}))
        if not fired:
            continue  # it needs another rule to fire first
        compared += 1
        before, _ = result_of(case, frozenset())
        if after > before:
            worse.append(f"{case}: {before} becomes {after}")
    assert compared, f"no golden case has {name} fire without other rules"
    return worse


@pytest.mark.parametrize("name", sorted(RULES))
def test_a_rule_makes_nothing_worse(name: str) -> None:
    worse = worse_cases(name)
    if name in DEARER:
        assert worse, f"{name} needs no exception any more"
    else:
        assert not worse, "; ".join(worse)


def test_exceptions_are_rules() -> None:
    assert DEARER.keys() <= RULES


def test_the_cost_counts_work_before_instructions() -> None:
    cost = {}
    for name in ("negate(x)", "negate(n)", "sine(x)"):
        text = f"""HloModule m
ENTRY e {{
  x = f32[8] parameter(0)
  n = f32[8] negate(x)
  ROOT r = f32[8] {name}
}}"""
        module = hloc.parse(text)
        Pipeline.parse("dce").run(module)
        cost[name] = cost_of(module)
    assert cost["negate(x)"] == Cost(8 + 64, 1)
    assert cost["negate(x)"] < cost["negate(n)"] == Cost(2 * (8 + 64), 2)
    assert cost["negate(n)"] < cost["sine(x)"] == Cost(20 * 8 + 64, 1)
