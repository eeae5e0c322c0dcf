"""Solution 3: remove what has no users, then visit its operands again."""

from hloc.analysis.call_graph import effectful_computations, has_side_effect
from hloc.opt import ModulePass


class DeadCode(ModulePass):
    """Remove instructions that nothing needs."""

    name = "my-dce"

    def run(self, module, context):
        before = context.rewrites
        effectful = effectful_computations(module)
        for computation in module.computations:
            work = list(computation.instructions)
            while work and not context.spent:
                inst = work.pop()
                if inst not in computation or inst.users or inst.is_root:
                    continue
                if inst.is_a("parameter") or has_side_effect(inst, effectful):
                    continue
                with context.rewriting(module, self.name):
                    computation.remove(inst)
                work.extend(inst.operands)
        return context.rewrites > before
