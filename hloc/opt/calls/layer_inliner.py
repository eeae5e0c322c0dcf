"""Inline the layers that were outlined."""

from __future__ import annotations

from hloc.ir.module import Module
from hloc.opt.calls.call_inliner import inline_calls
from hloc.opt.calls.layers import LAYER
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.opt.walk import each_instruction


class LayerInliner(RewritingPass):
    """Inline the calls that `layer-outliner` made.

    What layers compute from the same operands, or from none, is copied once: a mask, for instance.
    Leaves the called computations to `dce`. Cost: O(instructions made).
    """

    acts_on = frozenset({"call"})

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Inline every call that is marked as a layer."""
        calls = each_instruction(module, context, "call")
        layers = (
            call for call in calls if call.common.frontend_attributes == LAYER.frontend_attributes
        )
        inline_calls(module, layers, context, self.name)
