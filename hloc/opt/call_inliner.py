"""Inline calls."""

from __future__ import annotations

from hloc.ir.clone import inline
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.opt.walk import each_instruction


@dataclass(frozen=True)
class CallInliner(RewritingPass):
    """Inline every `call`, callees first.

    Calls stay once this has added `max-instructions` to the module: nested calls can grow a module
    exponentially. Leaves the called computations to `dce`. Cost: O(instructions made).
    """

    acts_on = frozenset({"call"})
    max_instructions: int = 200_000

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Inline callees first, so that every copied body is complete."""
        room = self.max_instructions
        for call in each_instruction(module, context, "call"):
            growth = len(call.called[0])
            if growth <= room:
                room -= growth
                with context.rewriting(module, self.name):
                    inline(call)
