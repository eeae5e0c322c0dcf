"""Sink constants into while loops."""

from __future__ import annotations

from collections import deque

from hloc.analysis.loop_state import loop_state
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.opt.control_flow.leafwise import has_control_dependencies
from hloc.opt.control_flow.loop_plan import Effects, has_known_leaf, plan_loop
from hloc.opt.control_flow.rewrite_loop import rewrite_loop
from hloc.opt.pass_base import PassContext, RewritingPass


@dataclass(frozen=True)
class WhileLoopConstantSinking(RewritingPass):
    """Sink constants, iotas and broadcasts of constants into the loops that carry them.

    Removes them from the loop state. `while-loop-simplifier` does the same for plain constants;
    this pass also sinks values that are cheaper to recompute than to load. Skips loops with control
    dependencies, dynamic dimensions or differing layouts.

    Semantics: XLA's while_loop_constant_sinking. Cost: a few walks over each body.

    Attributes:
        broadcasts: sink broadcasts of scalar constants and iotas too, not only constants.
    """

    acts_on = frozenset({"while"})
    broadcasts: bool = True

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Sink into outer loops first, then into inner ones."""
        effects = Effects()
        waiting = deque([module.entry])
        seen = {module.entry}
        while waiting:
            computation = waiting.popleft()
            for inst in computation.instructions:
                if inst.opcode.name == "while" and not has_control_dependencies(inst):
                    if context.spent:
                        return
                    context.at = inst
                    self._sink(inst, effects, context)
            for inst in computation.instructions:  # new loops call new computations
                if inst.called:
                    waiting += [called for called in inst.called if called not in seen]
                    seen.update(inst.called)

    def _sink(self, loop: Instruction, effects: Effects, context: PassContext) -> None:
        state = loop_state(loop)
        if state is None or not has_known_leaf(state, effects, self._is_known):
            return
        new = plan_loop(state, effects, lambda _: True, known=self._is_known)
        if new is None:
            return
        with context.rewriting(loop.computation.module, self.name):
            rewrite_loop(state, new, effects)

    def _is_known(self, inst: Instruction) -> bool:
        if self.broadcasts and inst.is_a("broadcast"):
            inst = inst.operands[0]
            return inst.is_a("constant") and inst.array.is_scalar
        return inst.is_a("constant") or (self.broadcasts and inst.is_a("iota"))
