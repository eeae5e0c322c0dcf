"""Compute the products of all iterations of a loop at once."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from hloc.analysis.leaf_source import leaf_source
from hloc.analysis.loop_state import LoopState, leaf_classes, loop_state
from hloc.analysis.trip_count import trip_count
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import post_order
from hloc.lazy_dataclass import dataclass
from hloc.ops.builder import Builder, make
from hloc.opt.contraction.dot_numbers import Side, dot_of, sides
from hloc.opt.control_flow.leafwise import has_control_dependencies
from hloc.opt.expander import is_static
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.opt.walk import each_instruction


@dataclass(frozen=True)
class WhileLoopDotBatching(RewritingPass):
    """Multiply a loop-invariant array as a whole where each iteration multiplies a slice of it.

    A recurrent layer that multiplies the input of each step by the same weights reads them once per
    step. One dot of the inputs of all steps reads them once; the loop takes a slice of its result.
    The new dot is left to `while-loop-invariant-code-motion`, which moves it out of the loop.

    Applies to dots without batch dimensions whose slice is one index of a dimension that the loop
    runs over at least once, with few rows, since many rows make good use of the weights. Exact but
    for the order of sums. Cost: O(body) a loop.

    Attributes:
        max_rows: most rows of a slice.
        min_work: fewest multiplications of an iteration.
        max_bytes: most bytes of the result for all iterations.
    """

    acts_on = frozenset({"while"})
    max_rows: int = 32
    min_work: int = 4096
    max_bytes: int = 1 << 26

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Rewrite the dots that it pays for."""
        for loop in each_instruction(module, context, "while"):
            state, trips = loop_state(loop), trip_count(loop)
            if state is None or trips is None or has_control_dependencies(loop):
                continue
            found = [
                (dot, sliced)
                for dot in post_order(loop.called[1])
                for sliced in _sliced_sides(dot, state)
                if trips.count >= sliced.steps > 1 and self._pays(dot, sliced)
            ]
            for dot, sliced in dict(found).items():
                context.remark("passed", self.name, dot, f"all {sliced.steps} are one dot")
                with context.rewriting(module, self.name):
                    _batch(dot, sliced)

    def _pays(self, dot: Instruction, sliced: _SlicedSide) -> bool:
        size = dot.array.elements
        depth = prod(sliced.side.sizes(sliced.side.contracting))
        rows = prod(sliced.side.sizes(sliced.side.free))
        is_worth = rows <= min(self.max_rows, depth) and size * depth >= self.min_work
        return is_worth and sliced.steps * dot.array.size_bytes <= self.max_bytes


@dataclass(frozen=True, slots=True)
class _SlicedSide:
    """An operand of a dot that is a slice of a loop-invariant array.

    Attributes:
        number: of the operand.
        side: the operand, with its dimensions.
        slice: the dynamic-slice, of one index of dimension `dim`.
    """

    number: int
    side: Side
    slice: Instruction
    dim: int

    @property
    def steps(self) -> int:
        """Number of slices."""
        return self.slice.operands[0].array.dims[self.dim]

    def whole(self, b: Builder) -> Side:
        """Return all slices, of the type of the operand, as one side of a dot."""
        array = b.convert(self.slice.operands[0], self.side.operand.array.dtype)
        contracting = tuple(at + (at >= self.dim) for at in self.side.contracting)
        return Side(array, (), contracting)


def _sliced_sides(dot: Instruction, state: LoopState) -> Iterator[_SlicedSide]:
    """Yield the sides of `dot` that are slices, if the other one is loop-invariant."""
    if not dot.is_a("dot") or len(dot.operands) != 2 or not is_static(dot):
        return
    both = sides(dot)
    for number, (side, other) in enumerate((both, both[::-1])):
        found = side.operand
        while found.is_a("reshape", "convert"):
            found = found.operands[0]
        if side.batch or not found.is_a("dynamic-slice"):
            continue
        whole, sizes = found.operands[0].array.dims, found.array.dims
        cut = [dim for dim, size in enumerate(sizes) if size != whole[dim]]
        if len(cut) != 1 or sizes[cut[0]] != 1 or not _is_invariant(found.operands[0], state):
            continue
        (dim,) = cut
        if side.operand.array.dims == (*sizes[:dim], *sizes[dim + 1 :]) and _is_invariant(
            other.operand, state
        ):
            yield _SlicedSide(number, side, found, dim)


def _is_invariant(inst: Instruction, state: LoopState) -> bool:
    """True if `inst` moves or converts a constant or a part of the state that never changes."""
    while len(inst.operands) == 1 and (inst.opcode.data_movement or inst.is_a("convert")):
        inst = inst.operands[0]
    source, index = leaf_source(inst)
    if source is not state.parameter:
        return source.is_a("constant")
    return state.number.get(index, -1) in leaf_classes(state).invariant


def _batch(dot: Instruction, sliced: _SlicedSide) -> None:
    """Replace `dot` by a slice of the dot of all slices."""
    body = dot.computation
    b, both = Builder(body), sides(dot)
    whole, other = sliced.whole(b), both[1 - sliced.number]
    lhs, rhs = (whole, other) if sliced.number == 0 else (other, whole)
    every = dot_of(b, dot, lhs, rhs)
    at = whole.free.index(sliced.dim) + len(other.free) * (whole is rhs)
    step = sliced.slice.operands[1 + sliced.dim]
    starts = [b.constant(0, step.array.dtype)] * every.array.rank
    starts[at] = step
    sizes = [1 if dim == at else size for dim, size in enumerate(every.array.dims)]
    body.replace(dot, make(body, "reshape", dot.shape, b.dynamic_slice(every, starts, sizes)))
