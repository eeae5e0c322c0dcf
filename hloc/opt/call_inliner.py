"""Inline calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hloc.analysis.call_graph import effectful_computations, has_side_effect
from hloc.ir.clone import inline
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import post_order
from hloc.lazy_dataclass import dataclass
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.opt.walk import each_instruction


@dataclass(frozen=True)
class CallInliner(RewritingPass):
    """Inline every `call`, callees first.

    What the callee computes without its parameters is copied once for all calls in one computation.
    Calls stay once this has added `max-instructions` to the module: nested calls can grow a module
    exponentially. Leaves the called computations to `dce`. Cost: O(instructions made).
    """

    acts_on = frozenset({"call"})
    max_instructions: int = 200_000

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Inline callees first, so that every copied body is complete."""
        inline_calls(self._calls(module, context), context, self.name)

    def _calls(self, module: Module, context: PassContext) -> Iterator[Instruction]:
        room = self.max_instructions
        for call in each_instruction(module, context, "call"):
            growth = len(call.called[0])
            if growth <= room:
                room -= growth
                yield call


def inline_calls(calls: Iterable[Instruction], context: PassContext, by: str) -> None:
    """Inline `calls`, a rewrite of pass `by` each."""
    known: dict[tuple[Computation, Computation], dict[Instruction, Instruction]] = {}
    for call in calls:
        (body,) = call.called
        copies = known.setdefault((call.computation, body), {})
        with context.rewriting(body.module, by):
            found = inline(call, copies)
        if not copies:
            copies.update((inst, found[inst]) for inst in _without_parameters(body))


def _without_parameters(body: Computation) -> list[Instruction]:
    """Return what `body` computes without its parameters, and without side effects."""
    effectful = effectful_computations(body.module)
    found: dict[Instruction, None] = {}
    for inst in post_order(body):
        if inst.is_a("parameter") or inst.opcode.control_flow or inst.control_predecessors:
            continue
        if found.keys() >= set(inst.operands) and not has_side_effect(inst, effectful):
            found[inst] = None
    return list(found)
