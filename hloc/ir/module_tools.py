"""The methods of `Module` that upper layers implement: statistics, passes, diffs, memory, find."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Self

from hloc.ir.notebook import NotebookView

if TYPE_CHECKING:
    from hloc.ir.instruction import Instruction

TOOLS: dict[str, Callable[..., Any]] = {}
"""Name of a method -> its implementation; `hloc/__init__.py` fills it."""


class ModuleTools(NotebookView):
    """Tools on a module; results print as on the command line."""

    __slots__ = ()

    def stats(self) -> Any:
        """Return counts, operations and bytes: `print(m.stats())`, `m.stats().figures.cost.flops`.

        As `hloc stats`; loop bodies are counted once.
        """
        return TOOLS["stats"](self)

    def apply(self, passes: str = "-O2") -> Self:
        """Return a new module after `passes`: `"algsimp,cse"`, `"fix(algsimp,dce)"`, `"-O2"`.

        This module is not changed. The new one records the rewrites, which `diff` then names.

        Raises:
            HloError: a pass that does not exist, or one that refuses the module.
        """
        found: Self = TOOLS["apply"](self, passes)
        return found

    def bind(self, values: Mapping[int, Any] | Mapping[str, Any]) -> Self:
        """Return a new module in which parameters are constants: weights that never change.

        The compiler lays them out once, as the kernels read them. The other parameters are numbered
        from 0 again, in their order. This module is not changed; arrays that can be written are
        copied.

        Args:
            values: parameter, by number or name -> array of its sizes and type.

        Raises:
            HloError: there is no such parameter, it is a tuple or shares memory with a result, or
                the array does not fit.
        """
        found: Self = TOOLS["bind"](self, values)
        return found

    def diff(self, other: Self) -> Any:
        """Return the differences in `other`: `print(m.diff(m.apply("fusion")))`.

        Instructions of a module made by `apply` are matched by identity, with the rule
        that changed each; those of unrelated modules as by `hloc diff`.
        """
        return TOOLS["diff"](self, other)

    def graph(self, before: Self | None = None) -> Any:
        """Return the graph of the entry computation, which notebooks draw as a page to explore.

        Args:
            before: an earlier module; changes are marked, removed instructions dashed.

        Raises:
            HloError: it is too large to be drawn.
        """
        return TOOLS["graph"](self, before)

    def memory(self, opt_level: int = 2) -> str:
        """Return the sizes of the buffers of the compiled module, and their peak.

        As `hloc FILE --memory`, for the CPU; notebooks draw the arena.

        Raises:
            HloError: hloc cannot compile it.
        """
        text: str = TOOLS["memory"](self, opt_level)
        return text

    def roofline(self, opt_level: int = 2, run: bool = False) -> Any:
        """Return the kernels of the optimised module, compared with the peaks of this machine.

        As `hloc roofline`: `print` shows a table, notebooks draw the chart.

        Args:
            opt_level: 0 to 3.
            run: measure each kernel alone, for a minute at most; otherwise the time is modelled.
        """
        return TOOLS["roofline"](self, opt_level, run)

    def find(self, pattern: str) -> tuple[Instruction, ...]:
        """Return the instructions that match `pattern`, e.g. `"reduce(multiply(_, _))"`.

        Operands come before their users; () if none matches. The pattern language is that of `find`
        in hlo-repl.

        Raises:
            HloError: an invalid pattern, or an unknown opcode.
        """
        found: tuple[Instruction, ...] = TOOLS["find"](self, pattern)
        return found
