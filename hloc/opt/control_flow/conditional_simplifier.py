"""Simplify conditionals: remove branching, and unneeded arguments and results of branches."""

from __future__ import annotations

from dataclasses import replace

from hloc.analysis.dataflow import Position
from hloc.analysis.leaf_source import SourceWalk, leaf_source
from hloc.dtypes import TOKEN
from hloc.ir.clone import copy_instructions
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.ops.rows.control_flow import branch_taken
from hloc.opt.control_flow.branches import Branches, branches_of, selected
from hloc.opt.control_flow.leafwise import (
    Copier,
    assembled,
    copied_constant,
    has_control_dependencies,
    part_of,
    remove_uncalled,
    replace_leaves,
)
from hloc.opt.control_flow.loop_plan import Effects
from hloc.opt.make import make
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.opt.walk import each_instruction
from hloc.shapes import ArrayShape, Shape, ShapeIndex, TupleShape, leaves, shape_at


class ConditionalSimplifier(RewritingPass):
    """Remove unneeded branching, and shrink the arguments and results of branches.

    - `known`: the predicate is constant, or there is one branch: the branch is inlined.
    - `select`: no branch computes anything for a result: it becomes a `select`.
    - `shrink`: unused results, and results that every branch takes from the same value, are
      dropped, and equal results merged; unread arguments are dropped, and constant arguments move
      into the branch.

    Skips conditionals with control dependencies, dynamic dimensions or differing layouts, except in
    `known`. Semantics: XLA's conditional_simplifier. Cost: a few walks over each branch.
    """

    acts_on = frozenset({"conditional"})

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Simplify conditionals in branches and bodies first."""
        effects = Effects()
        for inst in each_instruction(module, context, "conditional"):
            if has_control_dependencies(inst) or self._inline_known(inst, context):
                continue
            self._shrink(inst, effects, context)

    def _inline_known(self, conditional: Instruction, context: PassContext) -> bool:
        branch = _known_branch(conditional)
        if branch is None or conditional.called[branch].root.shape != conditional.shape:
            return False
        computation = conditional.computation
        body, argument = conditional.called[branch], conditional.operands[1 + branch]
        with context.rewriting(computation.module, f"{self.name}/known"):
            copies = copy_instructions(body, computation, {body.parameters[0]: argument})
            called = conditional.called
            computation.replace(conditional, copies[body.root])
            computation.remove(conditional)
            remove_uncalled(*called)
        return True

    def _shrink(self, conditional: Instruction, effects: Effects, context: PassContext) -> None:
        branches = branches_of(conditional)
        if branches is None:
            return
        has_effects = effects.any_in(conditional)
        plan = _plan(branches, effects, has_effects)
        if not _makes_smaller(branches, plan) or (has_effects and not plan.kept):
            return
        rule = "select" if plan.picked else "shrink"
        with context.rewriting(conditional.computation.module, f"{self.name}/{rule}"):
            _rewrite(branches, plan, effects)


def _known_branch(conditional: Instruction) -> int | None:
    """Return the branch that is always taken, None if unknown."""
    if len(conditional.called) == 1:
        return 0
    predicate, _ = leaf_source(conditional.operands[0])
    if not predicate.is_a("constant") or predicate.attributes.literal.is_elided:
        return None
    if not isinstance(predicate.shape, ArrayShape):
        return None
    return branch_taken(predicate.attributes.literal.array, len(conditional.called))


@dataclass(frozen=True, slots=True)
class _Plan:
    """How to shrink a conditional.

    Attributes:
        kept: the leaves of the result that branches still return.
        stands_for: the kept leaf for each leaf that has one.
        picked: leaves for which no branch computes anything.
        arguments: for each branch, the leaves of its argument that are still passed.
    """

    kept: tuple[int, ...]
    stands_for: dict[int, int]
    picked: tuple[int, ...]
    arguments: tuple[tuple[ShapeIndex, ...], ...]


_SMALL_ELEMENTS = 1024
"""Arrays of at most this many elements become selects even if the conditional stays."""


def _plan(branches: Branches, effects: Effects, has_effects: bool) -> _Plan:
    """Decide for each leaf of the result: dropped, returned by the branches, or a `select`.

    If the conditional stays, large leaves stay in it: a `select` reads both arrays. Leaves that
    every branch takes from the same value are merged; tokens are not, if they order side effects.
    """
    used = [n for n in range(len(branches.indices)) if _is_used(branches, n)]
    free = [n for n in used if _is_free(branches, n, has_effects)]
    if len(free) < len(used) or has_effects:
        free = [
            n
            for n in free
            if branches.shapes[n].elements <= _SMALL_ELEMENTS or _is_same(branches, n)
        ]
    first: dict[tuple[Position, ...], int] = {}
    stands_for = {}
    for n in used:
        if n not in free:
            sources = tuple(leaf[n] for leaf in branches.sources)
            alone = branches.shapes[n].dtype is TOKEN and has_effects
            stands_for[n] = n if alone else first.setdefault(sources, n)
    kept = tuple(sorted(set(stands_for.values())))
    arguments = tuple(
        _arguments(branches, number, kept, effects) for number in range(len(branches.sources))
    )
    return _Plan(kept, stands_for, tuple(free), arguments)


def _is_used(branches: Branches, n: int) -> bool:
    """True if leaf `n` is used, alone or as part of a tuple."""
    conditional = branches.conditional
    if conditional.is_root:
        return True
    return any(
        (user.users or user.is_root) and (user.attributes.index,) == branches.indices[n][:1]
        if user.is_a("get-tuple-element")
        else True
        for user in conditional.users
    )


def _is_free(branches: Branches, n: int, has_effects: bool) -> bool:
    """True if no branch computes anything for leaf `n`."""
    if branches.shapes[n].dtype.is_special and (has_effects or not _is_same(branches, n)):
        return False
    return all(_value(branches, branch, n) is not None for branch in range(len(branches.sources)))


def _is_same(branches: Branches, n: int) -> bool:
    """True if leaf `n` has one value, whichever branch is taken."""
    values = [_value(branches, branch, n) for branch in range(len(branches.sources))]
    return None not in values and all(_is_equal(value, values[0]) for value in values)


def _is_equal(a: Position | None, b: Position | None) -> bool:
    if a is None or b is None or a == b:
        return a == b
    (x, x_index), (y, y_index) = a, b
    return (
        x.is_a("constant")
        and y.is_a("constant")
        and not x.attributes.literal.is_elided
        and x_index == y_index
        and bool(x.attributes.literal == y.attributes.literal)
    )


def _value(branches: Branches, branch: int, n: int) -> Position | None:
    """Return the source of leaf `n` of a branch: outside the conditional, or a constant."""
    inst, index = branches.sources[branch][n]
    if inst.is_a("constant"):
        return inst, index
    return branches.outside(branch, (inst, index))


def _arguments(
    branches: Branches, branch: int, kept: tuple[int, ...], effects: Effects
) -> tuple[ShapeIndex, ...]:
    """Return the leaves of the argument that `branch` needs."""
    walk = SourceWalk()
    for inst in effects(branches.conditional.called[branch]):
        walk.add(inst)
    for n in kept:
        walk.add(*branches.sources[branch][n])
    operand = branches.conditional.operands[1 + branch]
    read = {index for _, index in walk.reads}
    passed: dict[Position, ShapeIndex] = {}
    for index, _ in leaves(operand.shape):
        source = leaf_source(operand, index)
        if not source[1] and source[0].is_a("constant"):
            continue
        if any(index[: len(part)] == part for part in read):
            passed.setdefault(source, index)
    return tuple(passed.values())


def _makes_smaller(branches: Branches, plan: _Plan) -> bool:
    operands = branches.conditional.operands[1:]
    return len(plan.kept) < len(branches.indices) or any(
        len(passed) < len(list(leaves(operand.shape)))
        for passed, operand in zip(plan.arguments, operands, strict=True)
    )


def _rewrite(branches: Branches, plan: _Plan, effects: Effects) -> None:
    conditional = branches.conditional
    computation, called = conditional.computation, conditional.called
    new = _new_conditional(branches, plan, effects) if plan.kept else None
    place = {n: number for number, n in enumerate(plan.kept)}

    def result(n: int) -> Instruction:
        if n not in plan.stands_for:
            return _picked(branches, n)
        assert new is not None
        whole = not isinstance(new.shape, TupleShape)
        return new if whole else part_of(new, (place[plan.stands_for[n]],))

    replace_leaves(conditional, {i: n for n, i in enumerate(branches.indices)}, result)
    computation.remove(conditional)
    remove_uncalled(*called)


def _picked(branches: Branches, n: int) -> Instruction:
    computation = branches.conditional.computation
    values: list[Instruction] = []
    for branch, _ in enumerate(branches.sources):
        value = _value(branches, branch, n)
        assert value is not None
        inst, index = value
        if inst.computation is not computation:
            inst = copied_constant(inst, computation)
        values.append(part_of(inst, index))
    if _is_same(branches, n):
        return values[0]
    return selected(computation, branches.predicate, values)


def _new_conditional(branches: Branches, plan: _Plan, effects: Effects) -> Instruction:
    """Add the conditional of `plan`, with branches of their own.

    It returns the kept leaves, flat if the old one returned a tuple. Each operand is a tuple of
    the leaves that the branch still reads, or the old operand if it reads all of it.
    """
    conditional = branches.conditional
    computation = conditional.computation
    operands, called = [branches.predicate], []
    shape = conditional.shape
    if isinstance(shape, TupleShape):
        shape = TupleShape(tuple(branches.shapes[n] for n in plan.kept))
    for branch, passed in enumerate(plan.arguments):
        old = conditional.operands[1 + branch]
        parts = [part_of(old, index) for index in passed]
        if passed == ((),):
            operands.append(old)
        else:
            whole = TupleShape(tuple(part.shape for part in parts))
            operands.append(make(computation, "tuple", whole, *parts))
        called.append(_new_branch(branches, plan, branch, operands[-1].shape, shape, effects))
    return computation.add(
        conditional.opcode,
        shape,
        operands,
        conditional.attributes,
        called,
        name=conditional.name,
        common=replace(conditional.common, sharding=None, origin=None),
        span=conditional.span,
    )


def _new_branch(
    branches: Branches,
    plan: _Plan,
    branch: int,
    argument: Shape,
    result: Shape,
    effects: Effects,
) -> Computation:
    """Add the branch with a smaller argument and a smaller result."""
    source = branches.conditional.called[branch]
    copy = source.module.add_computation(source.name, execution_thread=source.execution_thread)
    old = source.parameters[0]
    common = replace(old.common, sharding=None, origin=None)
    parameter = copy.add(
        old.opcode, argument, attributes=old.attributes, name=old.name, common=common
    )
    operand = branches.conditional.operands[1 + branch]
    passed = {leaf_source(operand, i): n for n, i in enumerate(plan.arguments[branch])}
    parts: dict[Position, Instruction] = {}

    def leaf(index: ShapeIndex) -> Instruction:
        at = leaf_source(operand, index)
        if at not in parts:
            if at not in passed:
                parts[at] = copied_constant(at[0], copy)
            elif isinstance(argument, TupleShape):
                parts[at] = part_of(parameter, (passed[at],))
            else:
                parts[at] = parameter
        return parts[at]

    def part(index: ShapeIndex) -> Instruction:
        shape = shape_at(operand.shape, index)
        return assembled(copy, shape, [leaf((*index, *i)) for i, _ in leaves(shape)])

    copier = Copier(copy, part)
    roots = [branches.sources[branch][n] for n in plan.kept]
    copier.copy([*((inst, ()) for inst in effects(source)), *roots])
    found = [copier.part(*at) for at in roots]
    whole = not isinstance(result, TupleShape)
    copy.set_root(found[0] if whole else make(copy, "tuple", result, *found))
    return copy
