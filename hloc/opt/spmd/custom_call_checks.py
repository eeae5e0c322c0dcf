"""Custom calls that only a partitioner understands: that their operands fit their results."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hloc.errors import HloError
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.opt.spmd.annotations import CONSTRAINTS, IDENTITIES, TO_GLOBAL, TO_LOCAL, target_of
from hloc.shapes import ArrayShape, Shape, TupleShape, compatible


def check_custom_calls(module: Module) -> None:
    """Raise HloError at the first call whose operands its result cannot be made of."""
    for computation in module.computations:
        for inst in computation.instructions:
            target = target_of(inst)
            if target in CONSTRAINTS or target in IDENTITIES:
                _check(inst, target, "the shape", compatible)
            elif target in TO_LOCAL or target in TO_GLOBAL:
                _check(inst, target, "element type and rank", _same_rank)


def _check(inst: Instruction, target: str, what: str, fits: Callable[[Shape, Shape], bool]) -> None:
    """Raise HloError unless the result is the one operand, or a tuple of the operands."""
    shapes = [operand.shape for operand in inst.operands]
    is_one = len(shapes) == 1 and isinstance(shapes[0], TupleShape)
    results: Sequence[Shape] = (inst.shape,)
    if isinstance(inst.shape, TupleShape) and not is_one:
        results = inst.shape.elements
    if len(shapes) != len(results):
        counts = f"{len(shapes)} operands, but {len(results)} results"
        raise HloError(f"{inst.name}: {target} has {counts}", inst.span)
    for number, (operand, result) in enumerate(zip(shapes, results, strict=True)):
        if not fits(operand, result):
            raise HloError(
                f"{inst.name}: {target} needs {what} of operand {number}, "
                f"{operand.text_without_layout}, but gives {result.text_without_layout}",
                inst.span,
            )


def _same_rank(operand: Shape, result: Shape) -> bool:
    if not isinstance(operand, ArrayShape) or not isinstance(result, ArrayShape):
        return compatible(operand, result)
    return (operand.dtype, operand.rank) == (result.dtype, result.rank)
