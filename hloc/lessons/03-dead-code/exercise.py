"""Exercise 3: dead code elimination in a dozen lines."""

from hloc.analysis.call_graph import effectful_computations, has_side_effect
from hloc.opt import ModulePass


def is_dead(inst, effectful):
    """Return whether nobody needs `inst`."""
    if has_side_effect(inst, effectful):
        return False
    return False  # who else is needed? inst.users, inst.is_root and inst.is_a(...) may help


class DeadCode(ModulePass):
    """Remove instructions that nothing needs."""

    name = "my-dce"

    def run(self, module, context):
        before = context.rewrites
        effectful = effectful_computations(module)
        for computation in module.computations:
            for inst in computation.instructions:  # is one round enough?
                if is_dead(inst, effectful) and not context.spent:
                    with context.rewriting(module, self.name):
                        computation.remove(inst)
        return context.rewrites > before
