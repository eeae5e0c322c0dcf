"""Pieces of a module: an instruction, the constants that it reads, and levels of its operands."""

from __future__ import annotations

from hloc.analysis.extract import extract
from hloc.analysis.module_hash import module_hash
from hloc.ir.clone import clone_module, inline
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.opt.call_inliner import CallInliner
from hloc.opt.dce import DeadCodeElimination
from hloc.opt.pass_base import PassContext
from hloc.shapes import ArrayShape, leaves

NO_CODE = ("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all")
"""Opcodes without machine code of their own to compare."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a module as a module of its own.

    Attributes:
        inst: what it computes.
        height: levels of operands that came along.
        module: its parameters stand for `operands`, in this order.
        kind: equal for pieces that differ in names only, which one program serves.
    """

    inst: Instruction
    height: int
    module: Module
    operands: tuple[Instruction, ...]
    kind: str


def pieces_of(inst: Instruction, most: int) -> list[Piece]:
    """Return the pieces of up to `most` levels, smallest first, each larger than the last."""
    found: list[Piece] = []
    for height in range(most + 1):
        module = extract(inst, height)
        if found and module.instruction_count == found[-1].module.instruction_count:
            break
        found.append(Piece(inst, height, module, _operands(inst, module), module_hash(module)))
    return found


def _operands(inst: Instruction, alone: Module) -> tuple[Instruction, ...]:
    """Return the instructions that the parameters of `alone` stand for."""
    wanted = {parameter.name for parameter in alone.entry.parameters}
    found = {inst.name: inst}
    level = [inst]
    while level and not wanted <= found.keys():
        level = [o for member in level for o in member.operands if o.name not in found]
        found.update((member.name, member) for member in level)
    return tuple(found[parameter.name] for parameter in alone.entry.parameters)


def takes_arrays(inst: Instruction) -> bool:
    """True if all that an instruction takes and gives are arrays and tuples of them."""
    shapes = (inst.shape, *(operand.shape for operand in inst.operands))
    found = [leaf for shape in shapes for _, leaf in leaves(shape)]
    return all(isinstance(leaf, ArrayShape) and not leaf.dtype.is_special for leaf in found)


def opened(module: Module) -> Module:
    """Return a copy whose entry has the instructions of calls and fusions itself."""
    copy = clone_module(module)
    context = PassContext()
    CallInliner().run(copy, context)
    for inst in copy.entry.instructions:
        if inst.is_a("fusion"):
            inline(inst)
    DeadCodeElimination().run(copy, context)
    return copy
