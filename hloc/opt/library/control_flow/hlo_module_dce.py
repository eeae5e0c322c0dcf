"""Dead code across computations: unused loop state and unused parameters of calls."""

from __future__ import annotations

from hloc.analysis.call_graph import has_opcode
from hloc.analysis.liveness import Liveness, analyse_liveness
from hloc.analysis.loop_state import loop_state
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import live_computations
from hloc.opt.control_flow.leafwise import has_control_dependencies
from hloc.opt.control_flow.loop_plan import Effects, plan_loop
from hloc.opt.control_flow.rewrite_loop import rewrite_loop
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.opt.walk import each_instruction


class HloModuleDce(RewritingPass):
    """Remove dead loop state and dead parameters of calls.

    Looks at the whole module at once (`hloc/analysis/liveness.py`), so state that only circulates
    through nested loops and calls is removed too. Dead instructions inside the computations are
    left for `dce`. Skips loops with control dependencies, dynamic dimensions or differing layouts.

    Semantics: XLA's hlo_module_dce. Cost: O(leaves of all operands).
    """

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Shrink inner loops first, then calls."""
        if not has_opcode(module, "while", "call"):
            return
        effects = Effects()
        liveness = analyse_liveness(module)
        for inst in each_instruction(module, context, "while"):
            if not has_control_dependencies(inst):
                self._shrink(inst, effects, liveness, context)
        for computation in reversed(live_computations(module)):
            if context.spent:
                break
            if computation is not module.entry:
                self._drop_parameters(computation, context)

    def _shrink(
        self, loop: Instruction, effects: Effects, liveness: Liveness, context: PassContext
    ) -> None:
        state = loop_state(loop)
        if state is None or state.is_nested:
            return
        new = plan_loop(
            state, effects, lambda n: liveness.is_live(loop, state.indices[n]), merge=False
        )
        if new is not None:
            with context.rewriting(loop.computation.module, f"{self.name}/loop"):
                rewrite_loop(state, new, effects)

    def _drop_parameters(self, computation: Computation, context: PassContext) -> None:
        """Drop the unread parameters of a computation that only calls call."""
        callers = tuple(computation.callers)
        unread = [p for p in computation.parameters if not p.users and not p.is_root]
        if not unread or not callers or not all(c.is_a("call") for c in callers):
            return
        if any(p.control_predecessors for p in unread) or any(
            p in unread for inst in computation.controlled for p in inst.control_predecessors
        ):
            return
        numbers = {p.attributes.number for p in unread}
        with context.rewriting(computation.module, f"{self.name}/parameter"):
            for parameter in unread:
                computation.remove(parameter)
            for number, parameter in enumerate(computation.parameters):
                attributes = type(parameter.attributes)(number=number)
                computation.set_attributes(parameter, attributes)
            for caller in callers:
                kept = [o for i, o in enumerate(caller.operands) if i not in numbers]
                caller.computation.set_operands(caller, kept)
