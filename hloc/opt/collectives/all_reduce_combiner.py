"""Combine all-reduce instructions."""

from __future__ import annotations

from hloc.opt.collectives.combiner import Combiner


class AllReduceCombiner(Combiner):
    """Combine independent all-reduce instructions into one of several operands.

    They must have equal groups, reducer and element type. One exchange instead of
    several saves latency; the first result then waits for the last operand. Collectives in
    branches, and in loops that devices may not run equally often, are not changed. Cost: O(kinds *
    instructions).
    """

    acts_on = frozenset({"all-reduce"})
