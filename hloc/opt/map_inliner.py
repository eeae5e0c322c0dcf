"""Inline maps of elementwise functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import post_order
from hloc.opt.make import make
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.opt.walk import each_instruction
from hloc.shapes import ArrayShape


@dataclass(frozen=True)
class MapInliner(RewritingPass):
    """Replace a `map` whose body is elementwise by the body on whole arrays.

    Expects calls inlined; leaves other maps alone. Cost: O(instructions made).
    """

    name: ClassVar[str] = "map-inliner"
    acts_on: ClassVar[frozenset[str]] = frozenset({"map"})

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Inline in every computation that is called."""
        for inst in each_instruction(module, context):
            if inst.opcode.name == "map" and _is_plain(inst):
                with context.rewriting(module, self.name):
                    inst.computation.replace(inst, _widened(inst))


def _is_plain(inst: Instruction) -> bool:
    (body,) = inst.called
    return (
        isinstance(inst.shape, ArrayShape)
        and not inst.shape.dynamic
        and bool(inst.users or inst.is_root)
        and not inst.control_predecessors
        and all(_is_scalar_step(step) for step in body.instructions)
    )


def _is_scalar_step(inst: Instruction) -> bool:
    if not isinstance(inst.shape, ArrayShape) or inst.shape.dims:
        return False
    return inst.opcode.name in ("parameter", "constant") or inst.opcode.elementwise


def _widened(inst: Instruction) -> Instruction:
    """Add the instructions of the body, each in the dimensions of `inst`; return the root."""
    (body,) = inst.called
    computation, shape = inst.computation, inst.array
    made: dict[Instruction, Instruction] = dict(zip(body.parameters, inst.operands, strict=True))
    for step in post_order(body):
        if step not in made:
            made[step] = _widen(computation, step, shape.with_dtype(step.array.dtype), made)
    return made[body.root]


def _widen(
    computation: Computation,
    step: Instruction,
    shape: ArrayShape,
    made: dict[Instruction, Instruction],
) -> Instruction:
    if step.opcode.name == "constant":
        scalar = computation.add(step.opcode, step.shape, (), step.attributes)
        return make(computation, "broadcast", shape, scalar, dimensions=())
    operands = [made[operand] for operand in step.operands]
    return computation.add(step.opcode, shape, operands, step.attributes, common=step.common)
