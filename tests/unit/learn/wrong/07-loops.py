"""Nearly: everything that stays the same moves, whatever it takes to carry."""

from hloc.ir.traversal import post_order
from hloc.opt import ModulePass
from hloc.opt.authoring import hoist

WORK = ("dot", "exponential", "tanh", "multiply")


def unchanged_state(body):
    """Return the numbers of the state elements that the body forwards unchanged."""
    state = body.parameters[0]
    return {
        n
        for n, part in enumerate(body.root.operands)
        if part.is_a("get-tuple-element")
        and part.operands[0] is state
        and part.attributes.index == n
    }


def invariant(body):
    """Return the instructions whose value is the same in every step, operands first."""
    same = []
    fixed = unchanged_state(body)
    for inst in post_order(body):
        if inst.is_a("get-tuple-element"):
            if inst.operands[0].is_a("parameter") and inst.attributes.index in fixed:
                same.append(inst)
        elif inst.is_a("constant") or (inst.operands and all(o in same for o in inst.operands)):
            same.append(inst)
    return same


def is_worth(inst, same):
    """Return whether carrying the result is cheaper than computing it."""
    last = any(user not in same or user.is_root for user in inst.users)
    return inst.is_a(*WORK) and last


class MoveOut(ModulePass):
    """Compute in front of a loop what does not change in it."""

    name = "my-licm"

    def run(self, module, context):
        before = context.rewrites
        for loop in [i for i in module.entry.instructions if i.is_a("while")]:
            same = invariant(loop.called[1])
            values = [inst for inst in same if is_worth(inst, same)]
            values += [
                inst
                for inst in same
                if inst.is_a("exponential", "tanh")
                and inst not in values
                and not any(user in values for user in inst.users)
            ]
            if values and not context.spent:
                with context.rewriting(module, self.name):
                    hoist(loop, values)
        return context.rewrites > before
