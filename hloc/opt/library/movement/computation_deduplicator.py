"""Deduplicate equal computations."""

from __future__ import annotations

from hloc.analysis.structures import Structures
from hloc.ir.computation import Computation
from hloc.ir.module import Module
from hloc.ir.traversal import all_instructions, live_computations
from hloc.opt.pass_base import PassContext, RewritingPass


class ComputationDeduplicator(RewritingPass):
    """Redirect callers of equal computations to the first of them, and remove the others.

    Equal means structurally equal, apart from names. Not part of -O2: code generation compiles
    equal kernels once anyway, and clones shared loop bodies again. Useful for reading large dumps.
    Cost: O(instructions).
    """

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Merge called computations, innermost first."""
        structures = Structures()
        first: dict[tuple[int, bool], Computation] = {}  # fusions share with fusions only
        stands_for: dict[Computation, Computation] = {}
        for computation in reversed(live_computations(module)):
            if computation is not module.entry:
                key = structures.structure(computation), computation.is_fusion
                stands_for[computation] = first.setdefault(key, computation)
        merged = False
        for inst in list(all_instructions(module)):
            called = tuple(stands_for.get(c, c) for c in inst.called)
            if called == inst.called or context.spent:
                continue
            merged, context.at = True, inst
            with context.rewriting(module, self.name):
                inst.computation.set_called(inst, called)
        if merged:
            _remove_uncalled(module)


def _remove_uncalled(module: Module) -> None:
    reachable = set(live_computations(module))
    dead = [c for c in module.computations if c not in reachable]
    while dead:
        leaves = [c for c in dead if not c.callers]
        if not leaves:
            return
        for computation in leaves:
            module.remove_computation(computation)
        dead = [c for c in dead if c not in leaves]
