"""The driver of rewrite rules: a worklist that revisits only changed instructions."""

from __future__ import annotations

from collections import deque
from functools import lru_cache
from itertools import islice
from operator import attrgetter
from typing import TypeAlias

from hloc.analysis.call_graph import effectful_computations, has_side_effect
from hloc.analysis.divergence import fixed_collectives
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.opcode import Opcode, opcode_row
from hloc.ir.traversal import live_computations, post_order
from hloc.opt.pass_base import PassContext
from hloc.opt.pattern import SPLAT, Matcher, kinds_of, matcher
from hloc.opt.rule import Guard, Rule, RuleSet
from hloc.shapes import ArrayShape

_Rules: TypeAlias = tuple[tuple[Rule, Matcher, Guard | None], ...]
"""Rules with what is asked for each instruction: the matcher and `Rule.when`."""

_OPCODE = attrgetter("opcode")

_MAX_REWRITES_PER_INSTRUCTION = 20

_REMEMBERED = 4096
"""Combinations of kinds whose rules are remembered: programs repeat them, as do passes."""


def rewrite(module: Module, rules: RuleSet, context: PassContext, pass_name: str) -> bool:
    """Apply `rules` to every computation until none fires; True if one did.

    Removes dead instructions as it goes, so that rules can test for a single user. Skips
    instructions with control dependencies or dynamic dimensions. Cost: O(instructions + rewrites).
    """
    effectful, fixed = effectful_computations(module), fixed_collectives(module)
    before = context.rewrites
    allowed = _AllowedRules(rules, context)
    for computation in live_computations(module):
        candidates = allowed.candidates(computation)
        if candidates and not context.spent:
            rewriter = _Rewriter(computation, allowed, context, pass_name, effectful, fixed)
            rewriter.run(candidates)
    return context.rewrites > before


@lru_cache(_REMEMBERED)
def _rules_for(rules: RuleSet, opcode: str, *kinds: str) -> _Rules:
    """Return the rules that an instruction with operands of these kinds may match."""
    row = opcode_row(opcode)
    found = [(rule, matcher(rule.pattern, row, kinds)) for rule in rules.for_opcode(opcode)]
    return tuple([(rule, matches, rule.when) for rule, matches in found if matches is not None])


class _AllowedRules:
    """The rules that may fire, by the opcode of an instruction and the kinds of its operands."""

    def __init__(self, rules: RuleSet, context: PassContext) -> None:
        self.rules, self.context = rules, context
        self._by_opcodes: dict[tuple[Opcode, ...], _Rules] = {}
        self._by_kinds: dict[tuple[Opcode, tuple[str, ...]], _Rules] = {}

    def of(self, inst: Instruction) -> _Rules:
        """Return the rules that `inst` may match.

        The opcodes decide, unless an operand is a broadcast, which may be a splat.
        """
        opcodes = (inst.opcode, *map(_OPCODE, inst.operands))
        found = self._by_opcodes.get(opcodes)
        if found is None:
            kinds = kinds_of(inst.operands)
            found = self._of_kinds(inst.opcode, kinds)
            if "broadcast" not in kinds and SPLAT not in kinds:
                self._by_opcodes[opcodes] = found
        return found

    def _of_kinds(self, opcode: Opcode, kinds: tuple[str, ...]) -> _Rules:
        found = self._by_kinds.get((opcode, kinds))
        if found is None:
            known = _rules_for(self.rules, opcode.name, *kinds)
            found = tuple([row for row in known if self._may_fire(row[0])])
            self._by_kinds[opcode, kinds] = found
        return found

    def candidates(self, computation: Computation) -> list[Instruction]:
        """Return the instructions for whose opcode there are rules, operands before users."""
        if self.rules.for_any:
            return post_order(computation)
        known = self.rules.by_opcode
        insts = computation.instructions
        few = list(islice((inst for inst in insts if inst.opcode.name in known), 2))
        if len(few) < 2:
            return few  # in no need of an order
        return [inst for inst in post_order(computation) if inst.opcode.name in known]

    def _may_fire(self, rule: Rule) -> bool:
        if rule.name in self.context.disabled_rules:
            return False
        return rule.exactness == "exact" or self.context.fast_math


class _Rewriter:
    """The worklist of one computation."""

    def __init__(
        self,
        computation: Computation,
        rules: _AllowedRules,
        context: PassContext,
        pass_name: str,
        effectful: frozenset[Computation],
        fixed: frozenset[Instruction],
    ) -> None:
        """Make an empty worklist; `budget` bounds the rewrites, in case rules undo each other."""
        self.computation = computation
        self.rules = rules
        self.context = context
        self.pass_name = pass_name
        self.effectful = effectful
        self.pinned = {*computation.controlled, *computation.awaited, *fixed}
        self.has_dynamic = computation.derived(_has_dynamic)
        self.may_refuse = self.has_dynamic or bool(self.pinned)
        self.worklist: deque[Instruction] = deque()
        self.queued: set[Instruction] = set()
        self.budget = _MAX_REWRITES_PER_INSTRUCTION * (len(computation) + 10)

    def run(self, candidates: list[Instruction]) -> None:
        """Apply rules to `candidates`, and then to what that changes."""
        worklist, queued, rules_of = self.worklist, self.queued, self.rules.of
        worklist.extend(candidates)
        queued.update(candidates)
        while worklist:
            inst = worklist.popleft()
            queued.discard(inst)
            if not inst.users and not inst.is_root:
                continue  # dead, perhaps removed
            if self.may_refuse and self._refuses(inst):
                continue
            for rule, matches, when in rules_of(inst):
                found = matches(inst)
                if found is None or (when is not None and not when(inst, found)):
                    continue
                if self._apply(rule, inst, found):
                    break
            else:
                continue
            if self.context.spent:
                return

    def _refuses(self, inst: Instruction) -> bool:
        if self.has_dynamic and any(map(_is_dynamic, (inst, *inst.operands))):
            return True
        return inst in self.pinned

    def _apply(self, rule: Rule, inst: Instruction, found: dict[str, Instruction]) -> bool:
        """Apply `rule` to `inst`; False if it declined."""
        module = self.computation.module
        by = f"{self.pass_name}/{rule.name}"
        self.context.at, self.context.rule = inst, by
        newest = module.new_uid()
        with module.log.acting(by):
            new = rule.build(self.computation, inst, found)
            if new is None or (new.uid < newest and new.shape != inst.shape):
                # An operand with another layout cannot replace `inst`.
                self.context.rule = ""
                return False
            assert new.shape == inst.shape, f"{by} made {new!r} of {inst!r}"
            self.computation.replace(inst, new)
            self._remove_dead(inst)
        self.context.rule = ""
        self.context.count(by)
        if new.uid > newest:
            for created in _newer_than(new, newest):
                self._queue(created)
        for user in new.users:
            self._queue(user)
        self.budget -= 1
        if self.budget == 0:
            self.context.warnings.append(
                f"{self.pass_name} stopped in {self.computation.name}: rule {rule.name} and others "
                "keep firing"
            )
            self.worklist.clear()
        return True

    def _queue(self, inst: Instruction) -> None:
        if inst not in self.queued:
            self.queued.add(inst)
            self.worklist.append(inst)

    def _remove_dead(self, inst: Instruction) -> None:
        """Remove `inst` if it is dead, and then its operands likewise."""
        stack = [inst]
        while stack:
            dead = stack.pop()
            if dead.users or not self._is_removable(dead):
                continue
            self.computation.remove(dead)
            for operand in reversed(dict.fromkeys(dead.operands)):
                users = operand.users
                if not users:
                    stack.append(operand)
                elif len(users) == 1:
                    self._queue(*users)  # rules may ask for a single user

    def _is_removable(self, inst: Instruction) -> bool:
        return (
            not inst.is_root
            and inst.opcode.name != "parameter"
            and inst not in self.pinned
            and not has_side_effect(inst, self.effectful)
        )


def _has_dynamic(computation: Computation) -> bool:
    insts = computation.instructions
    return any([isinstance(inst.shape, ArrayShape) and inst.shape.dynamic for inst in insts])


def _is_dynamic(inst: Instruction) -> bool:
    return isinstance(inst.shape, ArrayShape) and bool(inst.shape.dynamic)


def _newer_than(new: Instruction, uid: int) -> list[Instruction]:
    """Return `new` and those of its operands that were added after `uid`, operands first."""
    found: dict[int, Instruction] = {}
    stack = [new]
    while stack:
        inst = stack.pop()
        if inst.uid > uid and inst.uid not in found:
            found[inst.uid] = inst
            stack.extend(inst.operands)
    return [found[number] for number in sorted(found)]
