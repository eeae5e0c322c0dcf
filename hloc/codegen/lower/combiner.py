"""The reduction of a collective as a kernel: a fusion of one array per member of a group."""

from __future__ import annotations

from hloc.dtypes import DType
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ops.builder import Builder
from hloc.ops.folding import result_types
from hloc.shapes import ArrayShape


def combiner(reducer: Computation, dtype: DType, members: int, elements: int) -> Instruction:
    """Return a fusion that reduces `members` arrays of `dtype`, in the order of its operands.

    The reduction runs in the element type of the reducer; its result is converted once.

    Args:
        reducer: of two scalars; its module is not changed.
        dtype: of the operands and the result.
        members: how many arrays there are.
        elements: size of the arrays.
    """
    module = Module("combiner")
    body = Builder(module.add_computation("combine"))
    (inner,) = result_types(reducer.root.shape)
    shape = ArrayShape(dtype, (elements,))
    total: Instruction | None = None
    for number in range(members):
        array = _converted(body, body.parameter(number, shape), inner if members > 1 else dtype)
        total = array if total is None else _reduced(body, reducer, total, array)
    assert total is not None
    body.computation.set_root(_converted(body, total, dtype))
    entry = Builder(module.add_computation("entry"))
    arrays = [entry.parameter(number, shape) for number in range(members)]
    fusion = entry.fusion(*arrays, shape=shape, called=(body.computation,), kind="kLoop")
    entry.computation.set_root(fusion)
    module.set_entry(entry.computation)
    return fusion


def _reduced(
    b: Builder, reducer: Computation, total: Instruction, array: Instruction
) -> Instruction:
    return b.map(total, array, shape=total.shape, called=(reducer,), dimensions=(0,))


def _converted(b: Builder, array: Instruction, dtype: DType) -> Instruction:
    if array.array.dtype is dtype:
        return array
    return b.convert(array, dtype)
