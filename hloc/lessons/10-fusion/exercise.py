"""Exercise 10: greedy fusion. Every array that is not stored saves its bytes twice."""

from hloc.ir.traversal import post_order
from hloc.opt import ModulePass
from hloc.opt.authoring import fuse

SMALL_WORK = ("broadcast", "constant")


def may_join(inst):
    """Return whether an instruction can be computed element by element inside a fusion."""
    return inst.opcode.elementwise or inst.is_a(*SMALL_WORK)


def group_of(root):
    """Return what one kernel computes together with `root`, operands first."""
    members = [root]
    for operand in root.operands:
        if may_join(operand) and list(operand.users) == [root]:
            members.insert(0, operand)
    return members  # only one level deep: go on with the operands of what has joined


class Greedy(ModulePass):
    """Fuse producers into their users, the last instruction first."""

    name = "my-fusion"

    def run(self, module, context):
        before = context.rewrites
        for inst in reversed(post_order(module.entry)):
            if inst not in module.entry or not (may_join(inst) or inst.is_a("reduce")):
                continue
            members = group_of(inst)
            if len(members) > 1 and not inst.is_a(*SMALL_WORK) and not context.spent:
                with context.rewriting(module, self.name):
                    fuse(members)
        return context.rewrites > before
