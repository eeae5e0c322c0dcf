"""Combine all-gather instructions."""

from __future__ import annotations

from hloc.opt.collectives.combiner import Combiner


class AllGatherCombiner(Combiner):
    """Combine independent all-gather instructions into one of several operands.

    They must have equal groups and dimension; element types may differ. One exchange instead of
    several saves latency; the first result then waits for the last operand. Collectives in
    branches, and in loops that devices may not run equally often, are not changed. Cost: O(kinds *
    instructions).
    """

    acts_on = frozenset({"all-gather"})
