"""Constant folding."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from hloc.analysis.call_graph import effectful_computations, has_side_effect
from hloc.analysis.cost import Cost, computation_cost, elements_of, instruction_cost
from hloc.errors import HloError
from hloc.evaluator import evaluate_computation
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import live_computations, post_order
from hloc.lazy_dataclass import dataclass
from hloc.literal import MAX_EMPTY_GROUPS, empty_groups, literal_of
from hloc.opt.make import make
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.shapes import ArrayShape

_NOT_FOLDED = frozenset(
    {
        "broadcast",  # cheaper than its result
        "copy",  # exists for its buffer
        "custom-call",
        "fft",
        "while",
    }
)

_KNOWN = ("constant", "broadcast", "iota")
"""What an operand of a constant expression may be."""

_SMALL = 1024
"""Broadcasts and iotas of at most this many elements count as constants."""


@dataclass(frozen=True)
class ConstantFolding(RewritingPass):
    """Evaluate instructions whose operands are constants.

    Small broadcasts of constants and iotas count as constants. A result of more than `max-elements`
    is folded only if it is not larger than its operands; `max-flops` bounds the work of one
    instruction and `max-total-flops` that of a run. Loops, random numbers, side effects and elided
    constants are left alone. Cost: O(instructions) and the evaluation.
    """

    acts_on = frozenset({"constant", "iota"})
    max_elements: int = 65_536
    max_flops: int = 10_000_000
    max_total_flops: int = 200_000_000

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Fold, operands before users, so that whole constant expressions are folded at once."""
        effectful = effectful_computations(module)
        costs: dict[Computation, Cost] = {}
        folded: deque[Computation] = deque()  # callees first

        def cost_of(called: Computation) -> Cost:
            while called not in costs:
                first = folded.popleft()
                costs[first] = computation_cost(first, costs.__getitem__)
            return costs[called]

        work_left = self.max_total_flops
        for computation in live_computations(module):
            for inst in post_order(computation):
                operands = inst.operands
                if not operands or operands[0].opcode.name not in _KNOWN:
                    continue  # most instructions
                if not _is_known(inst) or has_side_effect(inst, effectful):
                    continue
                if context.spent:
                    return
                context.at = inst
                work = self._work(inst, cost_of)
                if work > min(self.max_flops, work_left):
                    continue
                work_left -= work
                value = _evaluate(inst)
                if value is not None:
                    self._replace(inst, value, context)
            folded.append(computation)

    def _work(self, inst: Instruction, cost_of: Callable[[Computation], Cost]) -> int:
        """Return an estimate of the work to evaluate `inst`, far above the budget if too large."""
        if empty_groups(inst.array.dims) > MAX_EMPTY_GROUPS:
            return self.max_total_flops
        elements = inst.array.elements
        operands = sum(elements_of(operand.shape) for operand in inst.operands)
        if elements > self.max_elements and elements > operands:
            return self.max_total_flops
        cost = instruction_cost(inst, cost_of)
        calls = 100 if inst.called else 1  # a called computation may run element by element
        return calls * (cost.flops + 10 * cost.transcendentals) + elements + operands

    def _replace(
        self, inst: Instruction, value: np.ndarray[Any, Any], context: PassContext
    ) -> None:
        computation = inst.computation
        literal = literal_of(np.array(value), inst.array.dtype)
        with context.rewriting(computation.module, self.name):
            folded = make(computation, "constant", inst.shape, literal=literal)
            computation.replace(inst, folded)


def _is_known(inst: Instruction) -> bool:
    for operand in inst.operands:
        if operand.opcode.name not in _KNOWN or not _is_known_operand(operand):
            return False
    return (
        isinstance(inst.shape, ArrayShape)
        and not inst.shape.dtype.is_special
        and not inst.shape.dynamic
        and bool(inst.users or inst.is_root)
        and not inst.opcode.forwards
        and inst.opcode.exchange is None  # left to `all-reduce-simplifier`
        and inst.opcode.name not in _NOT_FOLDED
        and inst.opcode.evaluate is not None
        and not inst.control_predecessors
    )


def _is_known_operand(inst: Instruction) -> bool:
    if not isinstance(inst.shape, ArrayShape) or inst.shape.dynamic:
        return False
    if inst.opcode.name == "broadcast" and inst.shape.elements <= _SMALL:
        inst = inst.operands[0]
    if inst.opcode.name == "iota":
        return inst.array.elements <= _SMALL
    return inst.opcode.name == "constant" and not inst.attributes.literal.is_elided


def _evaluate(inst: Instruction) -> np.ndarray[Any, Any] | None:
    """Return the value, or None if the evaluator refuses or the shape does not match."""
    try:
        with np.errstate(all="ignore"):
            operands = tuple(_operand_value(operand) for operand in inst.operands)
            value = _apply(inst, operands)
    except HloError:
        return None
    array = np.asarray(value)
    return array if array.shape == inst.array.dims else None


def _operand_value(inst: Instruction) -> Any:
    if inst.opcode.name == "broadcast":
        return _apply(inst, (_operand_value(inst.operands[0]),))
    return _apply(inst, ())


def _apply(inst: Instruction, operands: tuple[Any, ...]) -> Any:
    assert inst.opcode.evaluate is not None
    return inst.opcode.evaluate(inst, operands, evaluate_computation)
