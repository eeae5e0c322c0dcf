"""Replace conditionals with cheap branches by `select`."""

from __future__ import annotations

from hloc.ir.clone import copy_instructions
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.opt.control_flow.branches import Branches, branches_of, selected
from hloc.opt.control_flow.leafwise import (
    has_control_dependencies,
    part_of,
    remove_uncalled,
    replace_leaves,
)
from hloc.opt.control_flow.loop_plan import Effects
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.opt.walk import each_instruction
from hloc.shapes import ArrayShape


@dataclass(frozen=True)
class ConditionalToSelect(RewritingPass):
    """Execute all branches and `select` the result.

    Applies where the branches together have at most `max-instructions` instructions, all
    elementwise or data movement, that compute at most `max-elements` elements. In functions that
    are applied per element (`map`, `reduce` and so on) there is no limit, as in XLA, but no loop or
    side effect either. No branch instruction can trap, so speculation is safe.

    Semantics: XLA's conditional_to_select. Cost: O(instructions of the branches).

    Attributes:
        max_instructions: most instructions of all branches together.
        max_elements: most elements of their results together; beyond it, computing the
            unselected values may cost more than a mispredicted branch.
    """

    acts_on = frozenset({"conditional"})
    max_instructions: int = 16
    max_elements: int = 64

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Replace conditionals in branches first."""
        effects = Effects()
        for inst in each_instruction(module, context, "conditional"):
            if has_control_dependencies(inst):
                continue
            refusal = self._refusal(inst, effects)
            branches = branches_of(inst)
            if refusal or branches is None:
                context.remark("missed", self.name, inst, refusal)
                continue
            with context.rewriting(module, self.name):
                _select(branches)

    def _refusal(self, conditional: Instruction, effects: Effects) -> str:
        """Return why `conditional` is kept, "" if it is replaced."""
        if effects.any_in(conditional):
            return "a branch has a side effect"
        branches = branches_of(conditional)
        if branches is None:
            return "it has dynamic dimensions or changes a layout"
        if any(shape.dtype.is_special for shape in branches.shapes):
            return "it returns a token"
        steps = [i for c in conditional.called for i in c.instructions if not i.opcode.nop]
        if any(i.opcode.control_flow for i in steps):
            return "a branch holds a loop, a branch or a call"
        if _is_applied(conditional.computation):
            return ""
        costly = next((i for i in steps if not _is_cheap(i)), None)
        if costly is not None:
            return f"{costly.name} is neither elementwise nor a movement of data"
        if len(steps) > self.max_instructions:
            return f"its branches are {len(steps)} instructions"
        elements = sum(i.array.elements for i in steps)
        if elements > self.max_elements:
            return f"its branches compute {elements:,} elements"
        return ""


def _is_cheap(inst: Instruction) -> bool:
    return (
        (inst.opcode.elementwise or inst.opcode.data_movement or inst.is_a("dynamic-update-slice"))
        and isinstance(inst.shape, ArrayShape)
        and not inst.control_predecessors
    )


def _is_applied(computation: Computation) -> bool:
    """True for a function that a kernel applies to elements, such as the one of a `map`."""
    return bool(computation.callers) and all(
        not caller.opcode.control_flow and not caller.is_a("fusion")
        for caller in computation.callers
    )


def _select(branches: Branches) -> None:
    conditional = branches.conditional
    computation, called = conditional.computation, conditional.called
    roots = []
    for branch, operand in zip(called, conditional.operands[1:], strict=True):
        copies = copy_instructions(branch, computation, {branch.parameters[0]: operand})
        roots.append(copies[branch.root])

    def result(n: int) -> Instruction:
        values = [part_of(root, branches.indices[n]) for root in roots]
        return selected(computation, branches.predicate, values)

    replace_leaves(conditional, {i: n for n, i in enumerate(branches.indices)}, result)
    computation.remove(conditional)
    remove_uncalled(*called)
