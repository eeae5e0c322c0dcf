"""Results of few elements, computed without loops (`kernels/unrolling.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from hloc.codegen.builder.index import Index
from hloc.codegen.builder.values import Value
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.emitter import Emitter, KernelPlan
from hloc.codegen.kernels.loop import is_generated
from hloc.codegen.kernels.unrolling import is_unrolled, write_elements
from hloc.ir.instruction import Instruction
from hloc.shapes import ArrayShape, array_leaves, leaves


def plan(inst: Instruction) -> KernelPlan[KernelContext] | None:
    """Plan straight-line code for all elements, None if they are too many."""
    shapes = array_leaves(inst.shape)
    largest = max(shapes, key=lambda shape: shape.elements, default=None)
    if largest is None or not is_generated(inst):
        return None
    is_short = is_unrolled(largest, _members(inst))
    return KernelPlan(partial(_emit, shapes)) if is_short else None


def plan_sums(inst: Instruction) -> KernelPlan[KernelContext] | None:
    """Plan such code for a kernel with sums of few elements; None if another array is longer."""
    members = _members(inst)
    sums = [member for member in members if member.is_a("reduce")]
    if not sums:
        return None
    computed = [member for member in members if not member.is_a("parameter")]
    arrays = [a for member in computed for a in array_leaves(member.shape)]
    arrays += [operand.array for member in sums for operand in member.operands]
    largest = max(arrays, key=lambda shape: shape.elements)
    return plan(inst) if is_unrolled(largest, members) else None


def _has_single_values(inst: Instruction) -> bool:
    """True if no array that a kernel computes has more than one element."""
    computed = (member for member in _members(inst) if not member.is_a("parameter"))
    return all(a.elements == 1 for member in computed for a in array_leaves(member.shape))


def _members(inst: Instruction) -> Sequence[Instruction]:
    return inst.called[0].instructions if inst.is_a("fusion") else (inst,)


def _emit(shapes: list[ArrayShape], k: KernelContext) -> None:
    k.b.has_single_values = _has_single_values(k.inst)
    paths = [path for path, _ in leaves(k.inst.shape)]

    def make(number: int, index: Index) -> Value:
        return k.g.element(k.frame, k.root, index, paths[number])

    def store(number: int, index: Index, value: Value) -> None:
        k.outputs[number].store(k.math, index, value)

    write_elements(shapes, make, store)


EMITTER = Emitter("unrolled", plan)
SUMS = Emitter("unrolled-sums", plan_sums)
