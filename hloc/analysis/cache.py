"""Cached analyses: results are functions of one computation, valid for one version of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any, TypeVar

from hloc.ir.computation import Computation
from hloc.lazy_dataclass import dataclass

R = TypeVar("R")


@dataclass(eq=False, slots=True)
class AnalysisCache:
    """Results by function and computation, each valid for one version of the computation.

    A result may depend on the instructions of its computation only, not on what they call: the
    version does not grow when a called computation changes.
    """

    _results: dict[tuple[Callable[..., Any], Computation], tuple[int, Any]] = field(
        default_factory=dict
    )

    def get(self, analyse: Callable[[Computation], R], computation: Computation) -> R:
        """Return `analyse(computation)`, computed at most once per version."""
        key = (analyse, computation)
        found = self._results.get(key)
        if found is None or found[0] != computation.version:
            found = (computation.version, analyse(computation))
            self._results[key] = found
        result: R = found[1]
        return result

    def clear(self) -> None:
        """Drop all results, such as when a module is deleted."""
        self._results.clear()
