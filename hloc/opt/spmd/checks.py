"""Checks for programs that cannot be partitioned, made before anything is changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from hloc.errors import HloError, UnsupportedError
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.sharding import MANUAL
from hloc.ir.traversal import all_instructions
from hloc.opt.spmd.annotations import (
    CONSTRAINTS,
    IDENTITIES,
    TO_GLOBAL,
    TO_LOCAL,
    shardings_of,
    target_of,
)
from hloc.opt.spmd.array_classes import CALLERS, control_flow_instructions
from hloc.shapes import ArrayShape, Shape, TupleShape, compatible


def check_custom_calls(module: Module) -> None:
    """Raise HloError at the first call whose operands its result cannot be made of."""
    for inst in all_instructions(module):
        target = target_of(inst)
        if target in CONSTRAINTS or target in IDENTITIES:
            _check(inst, target, "the shape", compatible)
        elif target in TO_LOCAL or target in TO_GLOBAL:
            _check(inst, target, "element type and rank", _same_rank)


def check_device_numbers(module: Module) -> None:
    """Raise UnsupportedError if a result of the program depends on the number of its device.

    Inside of a manual region it may, since its results are joined where they leave
    the region. XLA refuses every `partition-id` outside of regions.
    """
    found: set[Instruction] = set()
    order, known = list(control_flow_instructions(module)), -1
    while len(found) > known:  # through loops, and into computations that are called
        known = len(found)
        for inst in order:
            if _depends(inst, found):
                found.add(inst)
            if inst.is_a(*CALLERS):
                found.update(p for p, given in _arguments(inst) if given in found)
    root = module.entry.root
    is_manual = all(s is not None and s.kind == MANUAL for s in shardings_of(root))
    if root in found and not is_manual:
        number = next(inst for inst in order if inst in found and inst.is_a("partition-id"))
        raise UnsupportedError(
            f"{number.name}: the results depend on the number of the device outside of a manual "
            "region, so they are no arrays of the whole program",
            number.span,
        )


def _arguments(inst: Instruction) -> Iterator[tuple[Instruction, Instruction]]:
    """Yield the parameters of the computations that `inst` calls, with their arguments."""
    if inst.is_a("call"):
        yield from zip(inst.called[0].parameters, inst.operands, strict=True)
        return
    given = inst.operands[1:] if inst.is_a("conditional") else inst.operands * 2
    for computation, operand in zip(inst.called, given, strict=True):
        yield computation.parameters[0], operand


def _depends(inst: Instruction, found: set[Instruction]) -> bool:
    """True if the result of `inst` depends on the device number, given those in `found`."""
    if inst in found or target_of(inst) in TO_GLOBAL:
        return inst in found
    if inst.is_a(*CALLERS) and any(c.root in found for c in inst.called):
        return True
    return inst.is_a("partition-id") or any(operand in found for operand in inst.operands)


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
