"""The factor rule of an instruction, and the rules that several opcodes share.

Rules of single opcodes are beside their rows; `hloc/ir/factors.py` defines factors.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloc.ir.factors import WHOLE, FactorDraft, FactorRule
from hloc.ir.instruction import Instruction
from hloc.shapes import ArrayShape, TupleShape


def factor_rule(inst: Instruction) -> FactorRule:
    """Return the rule of `inst`, whose operands are arrays; without one no dimension is linked."""
    shapes = inst.shape.elements if isinstance(inst.shape, TupleShape) else (inst.shape,)
    draft = FactorDraft(
        [[WHOLE] * operand.array.rank for operand in inst.operands],
        [[WHOLE] * shape.rank for shape in shapes if isinstance(shape, ArrayShape)],
    )
    if inst.opcode.factors is not None:
        inst.opcode.factors(draft, inst)
    elif inst.opcode.elementwise:
        same_dims(draft, inst)
    return draft.rule()


def same_dims(draft: FactorDraft, inst: Instruction) -> None:
    """Link all dimensions: the rule of elementwise opcodes."""
    sizes = inst.array.dims
    if all(operand.array.dims in (sizes, ()) for operand in inst.operands):
        draft.link(range(len(sizes)), sizes)


def dims_not_named(draft: FactorDraft, inst: Instruction) -> None:
    """Link the dimensions that the attribute `dimensions` does not name."""
    sizes, named = inst.operands[0].array.dims, inst.attributes.dimensions
    draft.link((dim for dim in range(len(sizes)) if dim not in named), sizes)


def windows_of_one(draft: FactorDraft, inst: Instruction) -> None:
    """Link dimensions with windows of one element, whose result is as large as operand 0."""
    dims = (
        dim
        for dim, window in enumerate(inst.attributes.window.dimensions)
        if (window.size, window.stride, window.pad_low, window.pad_high) == (1, 1, 0, 0)
        and window.base_dilation == 1
    )
    draft.link(dims, inst.operands[0].array.dims)


def whole_slices(
    draft: FactorDraft, sizes: Sequence[int], whole: Sequence[int], sides: Sequence[list[int]]
) -> None:
    """Link the dimensions of `sides` and results in which a slice is as large as the whole."""
    for dim, (size, full) in enumerate(zip(sizes, whole, strict=True)):
        if size == full:
            factor = draft.factor(full)
            for side in (*sides, *draft.results):
                side[dim] = factor
