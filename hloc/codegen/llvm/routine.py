"""Routines: functions for arrays of any size, shared by many kernels.

Routines that are used together form a unit. Its text is already optimised, so LLVM only generates
machine code. It depends on the machine and on element types alone: all modules share it, in a
process and in the object cache.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from hloc.lazy_dataclass import dataclass

FINAL_FORM = -1
"""The level of text that is in the form in which it should run: no passes."""

FINAL_WITH_SLOTS = -2
"""The level of text in final form, but for values that stack memory holds: they go to registers."""


SHORT_LOOPS = -3
"""The level of text that runs often, with short loops: level 2 with interleaving on ARM only, and
with vectors of what the unrolled loops become."""

ONLY_SHORT_LOOPS = -4
"""The level of such text without other loops: what one inlined kernel stores, the next then has in
registers. LLVM would unroll longer loops, too, which makes them slower."""


@dataclass(frozen=True, slots=True)
class Routines:
    """Functions in a unit of their own.

    Attributes:
        name: of the unit; on one machine, equal names mean equal texts.
        declarations: per function its declaration; names begin with that of the unit.
        source: the text of the whole unit, or what writes it.
        level: LLVM's; 0 for functions whose work is in long blocks or that run seldom, which
            compile in a third of the time without LLVM's register allocator.
    """

    name: str
    declarations: tuple[str, ...]
    source: str | Callable[[], str] = field(compare=False)
    level: int = FINAL_FORM

    @property
    def text(self) -> str:
        """The whole unit."""
        return self.source if isinstance(self.source, str) else self.source()

    @property
    def symbols(self) -> tuple[str, ...]:
        """The names of the functions."""
        return tuple(d[d.index("@") + 1 : d.index("(")] for d in self.declarations)
