"""Pieces of a module: an instruction, the constants that it reads, and levels of its operands."""

from __future__ import annotations

from collections.abc import Sequence

from hloc.analysis.diff.module_hash import module_hash
from hloc.analysis.extract import extract, without_signature
from hloc.ir.clone import clone_module, copy_instructions, inline
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.opcode import opcode_row
from hloc.ir.traversal import reachable_computations
from hloc.lazy_dataclass import dataclass
from hloc.opt.calls.call_inliner import CallInliner
from hloc.opt.dce import DeadCodeElimination
from hloc.opt.pass_base import PassContext
from hloc.shapes import ArrayShape, TupleShape, leaves

NO_CODE = ("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all")
"""Opcodes without machine code of their own to compare."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a module as a module of its own.

    Attributes:
        inst: the instruction that it computes.
        height: levels of operands included.
        module: its parameters stand for `operands`, in this order.
        kind: equal for pieces that differ in names only, and can share a program.
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


def combined(modules: Sequence[Module]) -> Module:
    """Return a module with the parameters and results of several, one after the other.

    They share nothing, so each is compiled as if it were alone.
    """
    first = modules[0]
    whole = Module("pieces", without_signature(first.config), first.stack_frames)
    called: dict[Computation, Computation] = {}
    for number, module in enumerate(modules):
        for old in reachable_computations(module.entry):
            if old is not module.entry:
                copy = whole.add_computation(f"{old.name}.{number}")
                copy.set_root(_copied(old, copy, {}, called)[old.root])
                called[old] = copy
    entry = whole.add_computation("pieces")
    row, roots, count = opcode_row("parameter"), [], 0
    assert row.attributes is not None
    for number, module in enumerate(modules):
        given: dict[Instruction, Instruction] = {}
        for parameter in module.entry.parameters:
            attributes, name = row.attributes(number=count), f"{parameter.name}.{number}"
            given[parameter] = entry.add(row, parameter.shape, attributes=attributes, name=name)
            count += 1
        found = _copied(module.entry, entry, given, called, f".{number}")
        roots.append(found[module.entry.root])
    shape = TupleShape(tuple(root.shape for root in roots))
    entry.set_root(entry.add(opcode_row("tuple"), shape, roots, name="results"))
    whole.set_entry(entry)
    return whole


def _copied(
    old: Computation,
    new: Computation,
    given: dict[Instruction, Instruction],
    called: dict[Computation, Computation],
    suffix: str = "",
) -> dict[Instruction, Instruction]:
    """Copy instructions into another module, whose computations `called` they call."""
    found = copy_instructions(old, new, given, suffix=suffix)
    for inst in found.values():
        if inst.called:
            new.set_called(inst, [called[c] for c in inst.called])
    return found


def takes_arrays(inst: Instruction) -> bool:
    """True if the operands and results of an instruction are arrays and tuples of arrays."""
    shapes = (inst.shape, *(operand.shape for operand in inst.operands))
    found = [leaf for shape in shapes for _, leaf in leaves(shape)]
    return all(isinstance(leaf, ArrayShape) and not leaf.dtype.is_special for leaf in found)


def opened(module: Module) -> Module:
    """Return a copy with calls and fusions inlined into the entry computation."""
    copy = clone_module(module)
    context = PassContext()
    CallInliner().run(copy, context)
    for inst in copy.entry.instructions:
        if inst.is_a("fusion"):
            inline(inst)
    DeadCodeElimination().run(copy, context)
    return copy
