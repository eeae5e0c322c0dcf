"""Combine all-gather instructions."""

from __future__ import annotations

from hloc.opt.collectives.combiner import Combiner


class AllGatherCombiner(Combiner):
    """Combine all-gather instructions that do not need each other into one of several operands.

    Equal are groups and dimension; element types may differ. One exchange instead of several
    saves their latency; the first result then waits for the last operand. Collectives in branches,
    and in loops that devices may not run equally often, stay. Cost: O(kinds * instructions).
    """

    acts_on = frozenset({"all-gather"})
