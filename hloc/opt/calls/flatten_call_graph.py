"""Clone shared computations of control flow, so that each has one call site.

Buffers belong to computations, so a body that two loops share needs two sets of them.
"""

from __future__ import annotations

from collections import deque
from typing import ClassVar

from hloc.errors import HloError
from hloc.ir.clone import clone_computation
from hloc.ir.computation import Computation
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.ops import names_of
from hloc.opt.pass_base import PassContext


@dataclass(frozen=True, slots=True)
class FlattenCallGraph:
    """Clone computations that while, conditional or call reach from more than one place.

    Leaves every such computation with one call site; computations applied inside a kernel
    (reducers, fusion bodies) stay shared. Cost: O(instructions of the result).

    Attributes:
        max_instructions: refuse to let the module grow beyond this.
    """

    name: ClassVar[str] = "flatten-call-graph"
    acts_on: ClassVar[frozenset[str]] = names_of(lambda row: row.control_flow)
    max_instructions: int = 250_000

    def run(self, module: Module, context: PassContext) -> bool:
        """Clone, callers first; raises `HloError` when the budget is spent."""
        claimed = {module.entry, *_applied_inside_kernels(module)}
        count = module.instruction_count
        limit = max(self.max_instructions, count)
        changed = False
        waiting = deque([module.entry])
        while waiting:
            computation = waiting.popleft()
            for inst in computation.instructions:
                if not inst.opcode.control_flow:
                    continue
                called = list(inst.called)
                for slot, target in enumerate(called):
                    if target in claimed:
                        if context.spent:
                            return changed
                        count += len(target)
                        _check_budget(count, limit, target)
                        with context.rewriting(module, self.name):
                            called[slot] = clone_computation(target)
                            computation.set_called(inst, called)
                        changed = True
                    claimed.add(called[slot])
                    waiting.append(called[slot])
        return changed


def _check_budget(count: int, limit: int, target: Computation) -> None:
    if count > limit:
        raise HloError(
            f"flatten-call-graph: the module would grow beyond {limit} instructions; "
            f"computation {target.name} is called from too many places"
        )


def _applied_inside_kernels(module: Module) -> list[Computation]:
    return [
        computation
        for computation in module.computations
        if any(not caller.opcode.control_flow for caller in computation.callers)
    ]
