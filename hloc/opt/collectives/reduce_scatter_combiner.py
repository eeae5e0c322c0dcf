"""Combine reduce-scatter instructions."""

from __future__ import annotations

from hloc.opt.collectives.combiner import Combiner


class ReduceScatterCombiner(Combiner):
    """Combine reduce-scatter instructions that do not need each other into one of several operands.

    Equal are groups, dimension, reducer and element type. One exchange instead of several
    saves their latency; the first result then waits for the last operand. Collectives in branches,
    and in loops that devices may not run equally often, stay. Cost: O(kinds * instructions).
    """

    acts_on = frozenset({"reduce-scatter"})
