"""Sum the products of all iterations of a loop at once."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from hloc.analysis.dataflow import Position
from hloc.analysis.leaf_source import leaf_source
from hloc.analysis.loop_state import LoopState, loop_state
from hloc.analysis.trip_count import TripCount, trip_count
from hloc.dtypes import F32, F64
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.ops.builder import Builder
from hloc.opt.contraction.dot_numbers import Side, dot_of, sides
from hloc.opt.control_flow.leafwise import has_control_dependencies, part_of
from hloc.opt.control_flow.loop_plan import Effects
from hloc.opt.control_flow.rewrite_loop import NewState, rewrite_loop
from hloc.opt.expander import is_static
from hloc.opt.make import splat
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.opt.walk import each_instruction
from hloc.shapes import ArrayShape


@dataclass(frozen=True)
class WhileLoopDotSinking(RewritingPass):
    """Sum the products that a loop adds to its state by one dot after the loop.

    The gradient of a recurrent layer adds a product of a few rows to the gradient of the weights in
    each step, and so reads and writes all of it. Instead the loop keeps the operands of all steps,
    which are smaller; one dot contracts the steps, too.

    Applies to sums of f32 and f64 that nothing else in the loop reads, of outer products and of
    dots without batch dimensions, of few rows, in loops with a known trip count. Exact but for the
    order of sums. Cost: O(body) a loop.

    Attributes:
        max_depth: most contracted elements of an iteration.
        min_bytes: fewest bytes of a sum.
        max_bytes: most bytes of the operands of all iterations.
    """

    acts_on = frozenset({"while"})
    max_depth: int = 64
    min_bytes: int = 1 << 12
    max_bytes: int = 1 << 26

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Rewrite the sums that it pays for."""
        effects = Effects()
        for loop in each_instruction(module, context, "while"):
            state, trips = loop_state(loop), trip_count(loop)
            if state is None or trips is None or has_control_dependencies(loop):
                continue
            if trips.variable is None or trips.count < 2 or abs(trips.step) != 1:
                continue
            found = [sum_ for sum_ in _sums(state) if self._pays(sum_, trips.count)]
            if not found:
                continue
            text = f"sums of {trips.count} products are one dot"
            for sum_ in found:
                context.remark("passed", self.name, sum_.product, text)
            with context.rewriting(module, self.name):
                _sink(state, trips, found, effects)

    def _pays(self, sum_: _Sum, count: int) -> bool:
        lhs, rhs = sum_.factors
        size = sum_.product.array.size_bytes
        read = lhs.operand.array.size_bytes + rhs.operand.array.size_bytes
        is_worth = size >= max(self.min_bytes, 2 * read)
        is_small = count * read <= self.max_bytes
        return is_worth and is_small and prod(lhs.sizes(lhs.contracting)) <= self.max_depth


@dataclass(frozen=True, slots=True)
class _Sum:
    """A leaf of the state to which each iteration adds a product.

    Attributes:
        leaf: its number.
        before: its value before the addition `add` of `product`.
        factors: the sides of the product, a dot or an outer product.
    """

    leaf: int
    before: Instruction
    add: Instruction
    product: Instruction
    factors: tuple[Side, Side]


def _sums(state: LoopState) -> Iterator[_Sum]:
    """Yield the sums of `state` that nothing but their addition reads."""
    tested, used = (_reads(computation) for computation in state.loop.called)
    if tested is None or used is None:
        return
    for number, ((add, _), index) in enumerate(zip(state.after, state.indices, strict=True)):
        if not add.is_a("add") or add.array.dtype not in (F32, F64) or index[0] in tested:
            continue
        for before, product in (add.operands, add.operands[::-1]):
            is_sum = leaf_source(before) == (state.parameter, index) and used[index[0]] == [before]
            if is_sum and all(_is_alone(inst) for inst in (before, product, add)):
                factors = _factors(product)
                if factors:
                    yield _Sum(number, before, add, product, factors)
                    break


def _reads(computation: Computation) -> dict[int, list[Instruction]] | None:
    """Return what reads each element of the state, None if something reads it as a whole."""
    found: dict[int, list[Instruction]] = {}
    for user in computation.parameters[0].users:
        if not user.is_a("get-tuple-element"):
            return None
        found.setdefault(user.attributes.index, []).append(user)
    return found


def _is_alone(inst: Instruction) -> bool:
    return len(inst.users) == 1 and not inst.control_predecessors


def _factors(product: Instruction) -> tuple[Side, Side] | None:
    """Return the sides of a dot, or of the outer product of two arrays."""
    if len(product.operands) != 2 or not is_static(product):
        return None
    if product.is_a("multiply"):
        x, y = product.operands
        if not (x.is_a("broadcast") and y.is_a("broadcast")):
            return None
        for lhs, rhs in ((x, y), (y, x)):
            if (*lhs.attributes.dimensions, *rhs.attributes.dimensions) == tuple(
                range(product.array.rank)
            ):
                return Side(lhs.operands[0], (), ()), Side(rhs.operands[0], (), ())
        return None
    if not product.is_a("dot") or any(side.batch for side in sides(product)):
        return None
    is_plain = all(operand.array.dtype is product.array.dtype for operand in product.operands)
    return sides(product) if is_plain else None


def _sink(state: LoopState, trips: TripCount, found: list[_Sum], effects: Effects) -> None:
    """Let the loop keep the operands, and add a dot of all of them to each sum after it."""
    loop, body = state.loop, state.loop.called[1]
    b, outside = Builder(body), Builder(loop.computation)
    number = _iteration(b, state, trips)
    operands = dict.fromkeys(side.operand for sum_ in found for side in sum_.factors)
    stacks: dict[Position, Instruction] = {}
    later: dict[Position, Position] = {}
    for operand in operands:
        shape = ArrayShape(operand.array.dtype, (trips.count, *operand.array.dims))
        stack = splat(body, shape, 0)
        row = b.reshape(operand, (1, *operand.array.dims))
        starts = [number] + [b.constant(0, number.array.dtype)] * operand.array.rank
        stacks[stack, ()] = splat(loop.computation, shape, 0)
        later[stack, ()] = b.dynamic_update_slice(stack, row, starts), ()
    for sum_ in found:
        body.replace(sum_.add, sum_.before)
    after = loop_state(loop)
    assert after is not None
    every = tuple(range(len(after)))
    new = rewrite_loop(after, NewState(every, every, hoisted=stacks, later=later), effects)
    assert new is not None
    place = {operand: len(every) + n for n, operand in enumerate(operands)}

    def kept(side: Side) -> Side:
        stack = part_of(new, (place[side.operand],))
        return Side(stack, (), (0, *(dim + 1 for dim in side.contracting)))

    for sum_ in found:
        users = [user for user in new.users if user.attributes.index == sum_.leaf]
        if users:
            lhs, rhs = map(kept, sum_.factors)
            start = part_of(new.operands[0], (sum_.leaf,))
            total = outside.add(start, _dot(outside, sum_.product, lhs, rhs))
            for user in users:
                loop.computation.replace(user, total)


def _dot(b: Builder, product: Instruction, lhs: Side, rhs: Side) -> Instruction:
    """Add a dot with the precision of `product`, if that is a dot."""
    if product.is_a("dot"):
        return dot_of(b, product, lhs, rhs)
    return b.dot(
        lhs.operand,
        rhs.operand,
        lhs_contracting_dims=lhs.contracting,
        rhs_contracting_dims=rhs.contracting,
    )


def _iteration(b: Builder, state: LoopState, trips: TripCount) -> Instruction:
    """Return the number of the iteration, from 0 on."""
    assert trips.variable is not None
    variable = part_of(state.parameter, trips.variable)
    if trips.start == 0 and trips.step == 1:
        return variable
    start = b.constant(trips.start, variable.array.dtype)
    first, second = (variable, start) if trips.step > 0 else (start, variable)
    return b.subtract(first, second)
