"""Nearly: a custom call that tells somebody something is no dead code."""

from hloc.opt import ModulePass


class DeadCode(ModulePass):
    """Remove instructions that have no users."""

    name = "my-dce"

    def run(self, module, context):
        before = context.rewrites
        for computation in module.computations:
            work = list(computation.instructions)
            while work and not context.spent:
                inst = work.pop()
                if inst not in computation or inst.users or inst.is_root:
                    continue
                if not inst.is_a("parameter"):
                    with context.rewriting(module, self.name):
                        computation.remove(inst)
                    work.extend(inst.operands)
        return context.rewrites > before
