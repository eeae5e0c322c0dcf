"""Exercise 7: loop-invariant code motion: move out of a loop what every iteration recomputes."""

from hloc.ir.traversal import post_order
from hloc.opt import ModulePass
from hloc.opt.authoring import hoist

WORK = ("dot", "exponential", "tanh", "multiply")


def unchanged_state(body):
    """Return the numbers of the state elements that the body forwards unchanged."""
    return set()  # body.root is a tuple; body.parameters[0] is the state


def invariant(body):
    """Return the instructions whose value is the same in every iteration, operands first."""
    same = []
    fixed = unchanged_state(body)
    for inst in post_order(body):
        if inst.is_a("get-tuple-element"):
            if inst.operands[0].is_a("parameter") and inst.attributes.index in fixed:
                same.append(inst)
        elif inst.is_a("constant") or (inst.operands and all(o in same for o in inst.operands)):
            same.append(inst)
    return same


class MoveOut(ModulePass):
    """Compute loop-invariant values before the loop."""

    name = "my-licm"

    def run(self, module, context):
        before = context.rewrites
        for loop in [i for i in module.entry.instructions if i.is_a("while")]:
            values = [inst for inst in invariant(loop.called[1]) if inst.is_a(*WORK)]
            # which of them are worth a place in the state of the loop?
            if values and not context.spent:
                with context.rewriting(module, self.name):
                    hoist(loop, values)
        return context.rewrites > before
