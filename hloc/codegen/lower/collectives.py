"""Lowering of collectives for plans: synchronous, and with several participants.

An async pair does all of its work in the start, as in XLA:CPU; nothing overlaps. `X-start` becomes
the tuple that it is declared to be, with the result of X in it, and `X-done` an element of that
tuple. So a start in one iteration of a loop may have its done in the next.
"""

from __future__ import annotations

from itertools import pairwise

from hloc.analysis.call_graph import control_flow_computations
from hloc.ir.computation import Computation
from hloc.ir.device_groups import device_groups, device_pairs, module_devices
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.opcode import opcode_row
from hloc.ir.traversal import post_order
from hloc.ops import OPCODES
from hloc.opt.make import make, splat
from hloc.shapes import ArrayShape, Shape, TupleShape

_START = "-start"

_DONES = frozenset(
    done for row in OPCODES.values() if row.exchange is not None for done in row.ended_by
)


def join_started_collectives(module: Module) -> None:
    """Make async collectives synchronous; changes `module` in place."""
    if not any(name.endswith(_START) for name in module.opcodes):
        return
    with module.log.acting("started-collectives"):
        for computation in control_flow_computations(module):
            for inst in post_order(computation):
                if inst.opcode.exchange is not None and inst.opcode.ended_by:
                    _run_at_once(inst)
                elif inst.opcode.name in _DONES:
                    _take_result(inst)


def _run_at_once(start: Instruction) -> None:
    """Replace a start by the collective and the tuple around its result."""
    computation, shape = start.computation, start.shape
    has_operands = isinstance(shape, TupleShape) and not _is_variadic_sum(start)
    result = shape.elements[1] if has_operands and isinstance(shape, TupleShape) else shape
    whole = computation.add(
        opcode_row(start.opcode.name.removesuffix(_START)),
        result,
        start.operands,
        start.attributes,
        start.called,
        name=start.name,
        common=start.common,
        control_predecessors=start.control_predecessors,
        span=start.span,
    )
    _run_after(start, (whole,))
    value = whole
    if has_operands:
        assert isinstance(shape, TupleShape)
        contexts = [_zeros(computation, context) for context in shape.elements[2:]]
        value = make(computation, "tuple", shape, _operands(start, shape), whole, *contexts)
    computation.replace(start, value)
    computation.remove(start)


def _is_variadic_sum(start: Instruction) -> bool:
    """True for the sums of several arrays: `all-reduce-start` has the shape of `all-reduce`."""
    return start.is_a("all-reduce-start") and len(start.operands) > 1


def _operands(start: Instruction, shape: TupleShape) -> Instruction:
    """Return element 0 of the tuple: the operand, or a tuple of the operands."""
    if not isinstance(shape.elements[0], TupleShape):
        return start.operands[0]
    return make(start.computation, "tuple", shape.elements[0], *start.operands)


def _zeros(computation: Computation, shape: Shape) -> Instruction:
    assert isinstance(shape, ArrayShape)
    return splat(computation, shape, 0)


def _take_result(done: Instruction) -> None:
    """Replace a done by element 1 of its operand, or by the operand if that is the result."""
    computation, (value,) = done.computation, done.operands
    if isinstance(value.shape, TupleShape) and not _is_sum_itself(done):
        value = make(computation, "get-tuple-element", value.shape.elements[1], value, index=1)
    _run_after(done, (value,))
    computation.replace(done, value)
    computation.remove(done)


def _is_sum_itself(done: Instruction) -> bool:
    """True if the operand of an `all-reduce-done` is not `(operand, result)` but the results."""
    return done.is_a("all-reduce-done") and isinstance(done.shape, TupleShape)


# ---- one participant


def replace_collectives_of_one(module: Module) -> None:
    """Replace collectives whose groups are single devices by their operands, of equal type."""
    if not any(opcode_row(name).exchange is not None for name in module.opcodes):
        return
    with module.log.acting("collectives-of-one"):
        for computation in control_flow_computations(module):
            for inst in post_order(computation):
                if inst.opcode.exchange is not None and _meets_itself(inst):
                    _replace_by_operands(inst)


def _meets_itself(inst: Instruction) -> bool:
    devices = range(module_devices(inst.computation.module).total)
    if inst.is_a("ragged-all-to-all"):
        return False
    if inst.is_a("collective-permute"):
        return sorted(device_pairs(inst)) == [(device, device) for device in devices]
    return sorted(device_groups(inst)) == [(device,) for device in devices]


def _replace_by_operands(inst: Instruction) -> None:
    computation = inst.computation
    value = inst.operands[0]
    if isinstance(inst.shape, TupleShape):
        value = make(computation, "tuple", inst.shape, *inst.operands)
    _run_after(inst, inst.control_predecessors)
    computation.replace(inst, value)
    computation.remove(inst)


def _run_after(old: Instruction, new: tuple[Instruction, ...]) -> None:
    """Move the control successors of `old` to `new`."""
    for later in old.computation.controlled:
        if old in later.control_predecessors:
            kept = (p for p in later.control_predecessors if p is not old)
            before = list(dict.fromkeys((*kept, *new)))
            old.computation.set_control_predecessors(later, before)


# ---- transfers


def order_transfers(module: Module) -> None:
    """Let each device send before it waits for data, unless the sent data depends on it.

    Otherwise a schedule could let all devices receive first, which is a deadlock. Control
    dependencies keep the `send` and `recv-done` of a computation in this order.
    """
    if "recv-done" not in module.opcodes:
        return
    with module.log.acting("order-transfers"):
        for computation in control_flow_computations(module):
            order = [inst for inst in _sends_first(computation) if inst.is_a("send", "recv-done")]
            for before, after in pairwise(order):
                if before not in after.control_predecessors:
                    known = after.control_predecessors
                    computation.set_control_predecessors(after, [*known, before])


def _sends_first(computation: Computation) -> list[Instruction]:
    """Return a topological order in which instructions that wait for data come last."""
    left = list(post_order(computation))
    done: dict[Instruction, None] = {}
    late: list[Instruction] = []
    while left:
        rest = []
        for inst in left:
            needed = (*inst.operands, *inst.control_predecessors)
            if any(operand not in done for operand in needed):
                rest.append(inst)
            elif inst.is_a("recv-done") and inst not in late:
                late.append(inst)
                rest.append(inst)
            else:
                done[inst] = None
        if len(rest) == len(left):
            first = next(inst for inst in rest if inst in late)
            done[first] = None
            rest.remove(first)
        left = rest
    return list(done)
