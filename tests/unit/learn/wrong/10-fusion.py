"""Nearly: a producer joins its user although others read it too, and is computed twice."""

from hloc.ir.traversal import post_order
from hloc.opt import ModulePass
from hloc.opt.authoring import fuse

SMALL_WORK = ("broadcast", "constant")


def may_join(inst):
    """Return whether an instruction can be computed element by element inside a fusion."""
    return inst.opcode.elementwise or inst.is_a(*SMALL_WORK)


def group_of(root):
    """Return what one kernel computes together with `root`, operands first."""
    inside = {root}
    members = [root]
    for inst in reversed(post_order(root.computation)):
        if inst in inside or not may_join(inst) or not inst.users or inst.is_root:
            continue
        if any(user in inside for user in inst.users):
            inside.add(inst)
            members.append(inst)
    return members[::-1]


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
