"""Nearly: attributes are forgotten, so all slices of one operand look alike."""

from hloc.ir.traversal import post_order
from hloc.opt import ModulePass

NEVER = ("parameter", "rng", "rng-get-and-update-state", "custom-call", "infeed", "outfeed")


def key_of(inst):
    """Return a key that is equal for instructions of equal value."""
    operands = [operand.uid for operand in inst.operands]
    if inst.opcode.commutative:
        operands.sort()
    called = tuple(computation.uid for computation in inst.called)
    value = inst.attributes if inst.is_a("constant") else None
    return inst.opcode.name, inst.shape, tuple(operands), value, called


class ValueNumbering(ModulePass):
    """Keep the first instruction of each value."""

    name = "my-cse"

    def run(self, module, context):
        before = context.rewrites
        first = {}
        for inst in post_order(module.entry):
            if inst.is_a(*NEVER) or context.spent or not (inst.users or inst.is_root):
                continue
            same = first.setdefault(key_of(inst), inst)
            if same is not inst:
                with context.rewriting(module, self.name):
                    module.entry.replace(inst, same)
        return context.rewrites > before
