"""Proves rewrite rules, from their own pattern and builder.

A rule is let loose on every module that can be drawn from its pattern within a bound, in every
element type; the module before and the one after are then compared for all inputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from hloc.dtypes import DType
from hloc.errors import HloError
from hloc.ir.clone import clone_module
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.opcode import opcode_row
from hloc.ir.verifier import verify
from hloc.opt.pass_base import PassContext
from hloc.opt.pattern import P, match
from hloc.opt.rewriter import rewrite
from hloc.opt.rule import Rule, RuleSet
from hloc.opt.values import dtype_of
from hloc.prove.equivalence import pairs_of
from hloc.prove.record import ALL_VALUES, IEEE, MOVES, WAYS, Z3
from hloc.prove.solver import ask
from hloc.prove.symbolic import SymbolicRun
from hloc.prove.terms import CannotFollowError
from tests.prove.bounds import LEVELS, ONE_VALUE, SHAPE_TYPES, VALUE_TYPES, Bound
from tests.prove.choices import Choices, every
from tests.prove.drawing_opcodes import draw
from tests.prove.exhaustive import can_enumerate, first_difference
from tests.prove.hints import HINTS, Hint
from tests.prove.proof import RuleProof

_TIMEOUT_MS = 20_000
_QUESTION = 50  # drawings that take as long as a question to Z3

_VALUES, _SHAPES = 40_000, 4_000
"""Modules drawn in one type and within one bound, for rules about values and about shapes."""

_FIRST = 10  # the smallest bound is tried whole, whatever it takes


class WrongRuleError(Exception):
    """A rule changed a result; the text shows the module before and after, and inputs."""


def is_about_shapes(rule: Rule) -> bool:
    """True if the pattern has an opcode that is not elementwise, or its root may have any."""
    hint = HINTS.get(rule.name)
    return (hint is not None and hint.shapes) or not _is_elementwise(rule.pattern)


def _is_elementwise(pattern: P, *, root: bool = True) -> bool:
    own = all(opcode_row(name).elementwise and name != "copy" for name in pattern.opcodes)
    inner = all(_is_elementwise(p, root=False) for p in pattern.operands or ())
    return own and inner and (bool(pattern.opcodes) or not root)


def prove_rule(rule: Rule, *, budget: int = 0, hint: Hint | None = None) -> RuleProof:
    """Prove `rule` in every element type, and within the largest bound the budget allows.

    Args:
        rule: any rule; one that is not exact is held to what it promises (`can_be_proven`).
        budget: modules that are drawn in one type and within one bound, at most; most fit no guard.
            ten times as many within the smallest bound of shapes. 0 stands for a usual number.
        hint: instead of the rule's own in `HINTS`.

    Raises:
        WrongRuleError: it changes a result.
        HloError: Z3 is not installed.
    """
    hint = hint or HINTS.get(rule.name, Hint())
    proof = RuleProof(rule.name, is_about_shapes(rule))
    budget = budget or (_SHAPES if proof.about_shapes else _VALUES)
    if not proof.about_shapes:
        for kind in hint.kinds or VALUE_TYPES:
            if not _prove_within(rule, hint, kind, ONE_VALUE, budget, proof):
                proof.open.setdefault(kind.name, f"more than {budget} modules")
        return proof
    kinds: Sequence[DType] = hint.kinds or SHAPE_TYPES
    for bound in LEVELS:
        attempt = RuleProof(rule.name, True)
        most = budget if proof.bound else _FIRST * budget
        if not all([_prove_within(rule, hint, k, bound, most, attempt) for k in kinds]):
            break
        for name, ways in proof.ways.items():
            attempt.ways.setdefault(name, ways)
        attempt.cases += proof.cases
        attempt.bound = bound
        proof = attempt
        # Moves are the same for every type: one is enough for the larger bounds.
        kinds = [kind for kind in kinds if kind.name in proof.ways][:1] or kinds
        if hint.dims:
            break
    return proof


def instances(
    rule: Rule, hint: Hint, kind: DType, bound: Bound
) -> Iterator[tuple[Module, Instruction] | None]:
    """Yield every module and root within `bound` in which `rule` matches, None for the others."""

    def build(choices: Choices) -> tuple[Module, Instruction]:
        return draw(rule, hint, kind, bound, choices)

    for made in every(build):
        yield made if made is not None and _matches(rule, made[1]) else None


def _matches(rule: Rule, root: Instruction) -> bool:
    found = match(rule.pattern, root)
    if found is None or (rule.when is not None and not rule.when(root, found)):
        return False
    try:
        verify(root.computation.module)
    except HloError:
        return False
    return True


def _prove_within(
    rule: Rule, hint: Hint, kind: DType, bound: Bound, budget: int, proof: RuleProof
) -> bool:
    """Prove all modules of one type and bound; False if there are more than the budget."""
    for made in instances(rule, hint, kind, bound):
        budget -= 1
        if budget < 0:
            return False
        if made is None:
            continue
        way = prove_module(rule, made[0])
        if way is None:
            continue
        proof.cases += 1
        if proof.about_shapes and way != MOVES:
            budget -= _QUESTION
        if way in WAYS:
            proof.ways.setdefault(kind.name, Counter())[way] += 1
        else:
            proof.open.setdefault(kind.name, way)
    return True


def prove_module(rule: Rule, module: Module) -> str | None:
    """Let `rule` work on a copy of `module`; return which of `WAYS` proves the copy equal.

    Returns:
        None if the builder declined; a reason that is none of the ways if there is no proof.

    Raises:
        WrongRuleError: the results differ.
    """
    after = clone_module(module)
    fired = rewrite(after, RuleSet.of((rule,)), PassContext(fast_math=True), "proof")
    return _way(rule, module, after) if fired else None


def _way(rule: Rule, before: Module, after: Module) -> str:
    loose = rule.exactness == "ignores-zero-sign"
    pairs: list[Any] | None = None
    reason = ""
    try:
        run = SymbolicRun()
        inputs = run.inputs(before.entry)
        results = [run.call(module.entry, *inputs) for module in (before, after)]
        pairs = pairs_of(*results)
        if all(a is b for a, b in pairs):
            return MOVES
    except CannotFollowError as fault:
        reason = f"{fault.opcode}: {fault.reason}"
    is_float = any(map(_is_float, before.entry.instructions))
    if (is_float or pairs is None) and can_enumerate(before.entry):
        found = first_difference(before.entry, after.entry, ignores_zero_sign=loose)
        if found is not None:
            raise WrongRuleError(_report(rule, before, after, found))
        return ALL_VALUES
    if pairs is None:
        return reason
    for pair in dict.fromkeys(pairs):
        answer = ask([pair], timeout_ms=_TIMEOUT_MS, ignores_zero_sign=loose)
        if answer.verdict == "different":
            raise WrongRuleError(_report(rule, before, after, answer.inputs))
        if answer.verdict == "unknown":
            return answer.reason
    return IEEE if is_float else Z3


def _is_float(inst: Instruction) -> bool:
    dtype = dtype_of(inst)
    return dtype is not None and (dtype.is_float or dtype.is_complex)


def _report(rule: Rule, before: Module, after: Module, inputs: Any) -> str:
    return f"{rule.name} is wrong for {inputs}\n{before.to_text()}\n{after.to_text()}"
