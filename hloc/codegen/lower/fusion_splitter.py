"""Defuses fusions that cannot be one kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from hloc.ir.clone import inline
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.opt.pass_base import PassContext


@dataclass(frozen=True)
class FusionSplitter:
    """Replace fusions that no emitter supports by the instructions inside.

    Expects verified IR and leaves verified IR; fusions inside fusions are inlined in turn if
    necessary. Cost: one walk, O(instructions).

    Attributes:
        needs_defusion: true for fusions of which the target cannot make one kernel.
    """

    needs_defusion: Callable[[Instruction], bool]
    name: ClassVar[str] = "fusion-splitter"

    def run(self, module: Module, context: PassContext) -> bool:
        """Inline every fusion that needs it."""
        changed = False
        for computation in tuple(module.computations):
            if computation.is_fusion:
                continue
            pending = [i for i in computation.instructions if i.is_a("fusion")]
            seen = set(pending)
            while pending and not context.spent:
                fusion = pending.pop()
                if not self.needs_defusion(fusion):
                    continue
                holds_fusions = any(i.is_a("fusion") for i in fusion.called[0].instructions)
                with context.rewriting(module, self.name):
                    inline(fusion)
                changed = True
                if holds_fusions:
                    result = [i for i in computation.instructions if i.is_a("fusion")]
                    pending += [i for i in result if i not in seen]
                    seen.update(result)
        return changed
