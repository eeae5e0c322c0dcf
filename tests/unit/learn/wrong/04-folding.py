"""Nearly: everything that is known is folded, however large it gets."""

from hloc.evaluator import evaluate_computation
from hloc.ir.traversal import post_order
from hloc.opt import ModulePass
from hloc.opt.make import constant


class Folding(ModulePass):
    """Compute what is known."""

    name = "my-folding"

    def run(self, module, context):
        before = context.rewrites
        for inst in post_order(module.entry):
            known = inst.operands and all(o.is_a("constant") for o in inst.operands)
            if known and inst.users and not context.spent:
                operands = tuple(o.attributes.literal.array for o in inst.operands)
                value = inst.opcode.evaluate(inst, operands, evaluate_computation)
                with context.rewriting(module, self.name):
                    module.entry.replace(inst, constant(module.entry, value))
        return context.rewrites > before
