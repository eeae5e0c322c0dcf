"""Turn started computations whose operands are bound later into calls."""

from __future__ import annotations

from hloc.errors import UnsupportedError
from hloc.ir.async_chain import async_start_of, is_complete, links_of
from hloc.ir.instruction import Instruction
from hloc.ops.builder import Builder
from hloc.opt.expander import Expander


class LateBindingExpander(Expander):
    """Replace the async-done of a late-bound chain by a call of the computation.

    A chain is late-bound if its start lacks operands, or the result in its shape; its links
    are left to `dce`. Cost: O(links).
    """

    acts_on = frozenset({"async-done"})

    def when(self, inst: Instruction) -> bool:
        """Replace those whose start has not run."""
        start = async_start_of(inst)
        return start is not None and not is_complete(start, start)

    def expand(self, inst: Instruction) -> Instruction:
        """Call the computation with the operands of all links.

        Raises:
            UnsupportedError: operands are bound in another iteration of a loop.
        """
        *updates, start = links_of(inst)
        if any(link.computation is not inst.computation for link in (*updates, start)):
            raise UnsupportedError(
                f"{inst.name}: operands that '{start.name}' lacks are bound across a loop",
                inst.span,
            )
        operands = list(start.operands)
        for update in reversed(updates):
            operands += update.operands[1:]
        return Builder(inst.computation).call(operands, start.called[0])
