"""Results in the layouts that the header of a module promises."""

from __future__ import annotations

from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.opcode import opcode_row
from hloc.opt.movement.walk import is_elementwise
from hloc.shapes import ArrayShape, Shape, TupleShape, same_layouts

_WRITE_ANY_LAYOUT = (
    "broadcast", "concatenate", "copy", "dot", "dynamic-slice", "gather", "iota", "pad", "reduce",
    "reverse", "slice", "transpose",
)  # fmt: skip
"""Opcodes whose kernels write any layout at no cost, beside elementwise ones."""


def lay_out_results(module: Module) -> None:
    """Let the results of `module` have the layouts of `entry_computation_layout`, in place.

    Programs of JAX promise row-major results, while the instructions that make them have the
    layout that XLA inferred: a transpose that of its operand's bytes. Such an instruction gets the
    promised layout if nothing else reads it, else it is copied.
    """
    promised = module.config.entry_layout
    if promised is None or same_layouts(module.entry.root.shape, promised.result):
        return
    root = module.entry.root
    with module.log.acting("entry-layout"):
        if not root.is_a("tuple"):
            module.entry.set_root(_laid_out(root, promised.result))
            return
        assert isinstance(promised.result, TupleShape)
        wanted = promised.result.elements
        operands = [_laid_out(*pair) for pair in zip(root.operands, wanted, strict=True)]
        module.entry.set_operands(root, operands)
        module.entry.set_shape(root, TupleShape(tuple(operand.shape for operand in operands)))


def _laid_out(inst: Instruction, wanted: Shape) -> Instruction:
    """Return `inst` in the layout of `wanted`; tuples stay as they are."""
    if not isinstance(inst.shape, ArrayShape) or not isinstance(wanted, ArrayShape):
        return inst
    shape = inst.shape.with_layout(wanted.layout)
    if same_layouts(inst.shape, shape):
        return inst
    uses = sum(user.operands.count(inst) for user in inst.users) + inst.is_root
    if uses == 1 and (is_elementwise(inst) or inst.is_a(*_WRITE_ANY_LAYOUT)):
        inst.computation.set_shape(inst, shape)
        return inst
    return inst.computation.add(opcode_row("copy"), shape, [inst])
