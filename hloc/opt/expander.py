"""Shared by expander passes: replace an instruction by an equivalent expansion."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from hloc.dtypes import F32, DType
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.opcode import opcode_row
from hloc.ops.builder import Builder
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.opt.walk import each_instruction
from hloc.shapes import ArrayShape, TupleShape


def is_static(inst: Instruction) -> bool:
    """True if `inst` has no dynamic dimension or control predecessor and is not in a fusion."""
    return not (
        inst.control_predecessors
        or inst.computation.is_fusion
        or any(isinstance(i.shape, ArrayShape) and i.shape.dynamic for i in (inst, *inst.operands))
    )


class Expander(RewritingPass):
    """Base of passes that replace single instructions; a subclass is a frozen dataclass."""

    def when(self, _inst: Instruction) -> bool | str:
        """Return whether an instruction of `acts_on` is replaced, or why not, for a remark."""
        return True

    def expand(self, inst: Instruction) -> Instruction:
        """Add the replacement of `inst`, and return its root."""
        raise NotImplementedError

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Expand in every computation."""
        expand_all(module, context, self.name, self.acts_on, self.expand, self.when)


def expand_all(
    module: Module,
    context: PassContext,
    name: str,
    opcodes: Collection[str],
    expand: Callable[[Instruction], Instruction],
    when: Callable[[Instruction], bool | str],
) -> None:
    """Replace the instructions of `opcodes` that fulfil `when`, for the pass `name`."""
    for inst in each_instruction(module, context, *opcodes):
        wanted = when(inst)
        if isinstance(wanted, str):
            context.remark("missed", name, inst, wanted)
        elif wanted:
            with context.rewriting(module, name):
                replace_with(inst, expand(inst))


def replace_with(inst: Instruction, new: Instruction) -> None:
    """Replace `inst`, also as a control predecessor, by `new` and remove it."""
    computation = inst.computation
    if not isinstance(inst.shape, TupleShape) and new.shape != inst.shape:
        new = computation.add(opcode_row("copy"), inst.shape, [new])
    for user in computation.controlled:
        if inst in user.control_predecessors:
            computation.set_control_predecessors(
                user, [new if p is inst else p for p in user.control_predecessors]
            )
    computation.replace(inst, new)
    computation.remove(inst)


def tuple_like(b: Builder, inst: Instruction, values: Sequence[Instruction]) -> Instruction:
    """Return the tuple of `values` in the layouts that `inst` has."""
    assert isinstance(inst.shape, TupleShape)
    parts = []
    for value, shape in zip(values, inst.shape.elements, strict=True):
        same = value.shape == shape
        parts.append(value if same else b.instruction("copy", (value,), shape=shape))
    return b.tuple(parts)


def working_type(dtype: DType) -> DType:
    """Return the type to compute in: f32 for narrower floats, else the type itself."""
    return F32 if dtype.is_float and dtype.bits < 32 else dtype
