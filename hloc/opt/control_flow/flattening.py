"""Makes control flow independent of data, so that a benchmark always runs the same work.

Not a pass, since results change. Loops with an unknown trip count get a fixed one, conditionals
take one branch, infeeds become zeros and outfeeds nothing. Source: XLA's tool
hlo_control_flow_flattening.
"""

from __future__ import annotations

from hloc.analysis.trip_count import trip_count
from hloc.dtypes import PRED, S32
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import live_computations
from hloc.lazy_dataclass import dataclass
from hloc.ops.builder import Builder
from hloc.opt.control_flow.leafwise import remove_uncalled
from hloc.opt.expander import replace_with
from hloc.opt.make import splat
from hloc.shapes import ArrayShape, Shape, TupleShape


@dataclass(frozen=True, slots=True)
class Flattening:
    """How to flatten control flow.

    Attributes:
        trips: trip count of loops whose own is unknown.
        most_trips: largest trip count of loops with a known one; None for no limit.
        branch: number of the branch that every conditional takes, its last one if it has fewer;
            None leaves conditionals.
    """

    trips: int
    most_trips: int | None = None
    branch: int | None = None


@dataclass(slots=True)
class Flattened:
    """The number of changed instructions."""

    loops: int = 0
    conditionals: int = 0
    transfers: int = 0


def flatten(module: Module, how: Flattening) -> Flattened:
    """Change `module` in place, computations that others call first.

    Args:
        module: verified; its results change, but not their shapes.
        how: the options.

    Returns:
        The changes; a loop with a known trip count within the limit is not changed.
    """
    done = Flattened()
    for computation in live_computations(module):
        for inst in computation.instructions:
            if inst.is_a("while"):
                done.loops += _flatten_loop(inst, how)
            elif inst.is_a("conditional") and how.branch is not None:
                _take_branch(inst, how.branch)
                done.conditionals += 1
            elif inst.is_a("infeed", "outfeed"):
                _drop_transfer(inst)
                done.transfers += 1
    return done


def _flatten_loop(loop: Instruction, how: Flattening) -> bool:
    """Give a loop its own counter, which ends it; the old body is called."""
    known = trip_count(loop)
    rounds = how.trips
    if known is not None:
        if how.most_trips is None or known.count <= how.most_trips:
            return False
        rounds = how.most_trips
    b, (condition, body) = Builder(loop.computation), loop.called
    module = loop.computation.module
    first = b.tuple([loop.operands[0], b.constant(0, S32)])
    c = Builder(module.add_computation(condition.name))
    counter = c.get_tuple_element(c.parameter(0, first.shape), 1)
    c.computation.set_root(c.compare(counter, c.constant(rounds, S32), "LT"))
    d = Builder(module.add_computation(body.name))
    state = d.parameter(0, first.shape)
    after = d.instruction("call", (d.get_tuple_element(state, 0),), called=(body,))
    counter = d.add(d.get_tuple_element(state, 1), d.constant(1, S32))
    d.computation.set_root(d.tuple([after, counter]))
    new_loop = b.instruction("while", (first,), called=(c.computation, d.computation))
    replace_with(loop, b.get_tuple_element(new_loop, 0))
    remove_uncalled(condition)
    return True


def _take_branch(conditional: Instruction, branch: int) -> None:
    b, predicate = Builder(conditional.computation), conditional.operands[0]
    number = min(branch, len(conditional.called) - 1)
    # The first branch of a predicate is the one for true.
    is_pred = predicate.array.dtype is PRED
    chosen = b.constant(number == 0, PRED) if is_pred else b.constant(number, S32)
    conditional.computation.set_operands(conditional, (chosen, *conditional.operands[1:]))


def _drop_transfer(inst: Instruction) -> None:
    b, token = Builder(inst.computation), inst.operands[-1]
    if inst.is_a("outfeed"):
        replace_with(inst, token)
        return
    assert isinstance(inst.shape, TupleShape)
    replace_with(inst, b.tuple([_zeros(b, inst.shape.elements[0]), token]))


def _zeros(b: Builder, shape: Shape) -> Instruction:
    if isinstance(shape, ArrayShape):
        return splat(b.computation, shape, 0)
    assert isinstance(shape, TupleShape)
    return b.tuple([_zeros(b, element) for element in shape.elements])
