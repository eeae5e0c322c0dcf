"""Nearly: each part of a barrier is taken for the first operand of the tuple."""

from hloc.ir.traversal import post_order
from hloc.opt import ModulePass

ANSWERS = {"slowest": "g"}


def held_by(inst):
    """Return the value that a barrier, or a part of one, passes on; None for anything else."""
    if inst.is_a("opt-barrier") and not inst.operands[0].is_a("tuple"):
        return inst.operands[0]
    if inst.is_a("get-tuple-element") and inst.operands[0].is_a("opt-barrier"):
        (held,) = inst.operands[0].operands
        return held.operands[0] if held.is_a("tuple") else None
    return None


class WithoutBarriers(ModulePass):
    """Replace barriers by their operands: this program only runs the forward pass."""

    name = "my-barriers"

    def run(self, module, context):
        before = context.rewrites
        for inst in post_order(module.entry):
            held = held_by(inst)
            if held is not None and inst.users and not context.spent:
                with context.rewriting(module, self.name):
                    module.entry.replace(inst, held)
        return context.rewrites > before
