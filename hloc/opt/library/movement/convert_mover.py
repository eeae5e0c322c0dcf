"""Move converts so that less data is moved."""

from __future__ import annotations

from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.opt.make import like, make
from hloc.opt.movement.walk import candidates
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.opt.values import has_one_user

_MOVES = ("broadcast", "concatenate", "reshape", "reverse", "slice", "transpose")


class ConvertMover(RewritingPass):
    """Move narrowing converts up and widening converts down through data movement.

    The moved data is then as narrow as possible. A convert never gets more elements, and a move
    with other users stays. Exact: data movement does not change values. Not part of -O2: fusion
    computes converts in the kernels that move data. Cost: O(instructions).
    """

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Widening converts first, operands before users; then narrowing ones, users first."""
        for inst in candidates(module, context, *_MOVES):
            if _may_widen_after(inst):
                with context.rewriting(module, self.name):
                    _widen_after(inst)
        for inst in candidates(module, context, "convert", users_first=True):
            _narrow_before(inst, module, context, self.name)


def _width(inst: Instruction) -> int:
    return inst.array.dtype.bits


def _may_widen_after(inst: Instruction) -> bool:
    """True if all operands are widening converts from one type with no other users."""
    if inst.array.elements > sum(o.array.elements for o in inst.operands):
        return False
    sources = set()
    for operand in inst.operands:
        if operand.opcode.name != "convert" or not has_one_user(operand):
            return False
        (source,) = operand.operands
        if source.array.dynamic or _width(source) >= _width(operand):
            return False
        sources.add(source.array.dtype)
    return len(sources) == 1


def _widen_after(inst: Instruction) -> None:
    computation = inst.computation
    sources = [operand.operands[0] for operand in inst.operands]
    narrow = inst.array.with_dtype(sources[0].array.dtype)
    moved = like(computation, inst, *sources, shape=narrow)
    computation.replace(inst, make(computation, "convert", inst.shape, moved))


def _narrow_before(convert: Instruction, module: Module, context: PassContext, name: str) -> None:
    """Move `convert` up as far as it goes, through a chain of moves of one operand."""
    while not context.spent:
        (moved,) = convert.operands
        if not _may_narrow_before(convert, moved):
            return
        computation = convert.computation
        with context.rewriting(module, name):
            (source,) = moved.operands
            narrow = source.array.with_dtype(convert.array.dtype)
            upper = make(computation, "convert", narrow, source)
            computation.replace(convert, like(computation, moved, upper, shape=convert.shape))
            computation.remove(convert)
            computation.remove(moved)  # or its operand would have two users
        convert = upper


def _may_narrow_before(convert: Instruction, moved: Instruction) -> bool:
    return (
        _width(convert) < _width(moved)
        and moved.opcode.name in _MOVES
        and len(moved.operands) == 1
        and len(moved.users) == 1
        and not moved.is_root
        and not moved.control_predecessors
        and not moved.operands[0].array.dynamic
        and moved.operands[0].array.elements <= convert.array.elements
    )
