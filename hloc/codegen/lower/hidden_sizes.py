"""Dynamic sizes that a compiled module takes and returns beside its arrays, as plain values.

`codegen/lower/dynamic_boundary.py` finds them.
"""

from __future__ import annotations

from hloc.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class HiddenSize:
    """The run-time size of dimension `dim` of argument or result `leaf` (both count from 0)."""

    leaf: int
    dim: int


@dataclass(frozen=True, slots=True)
class DynamicBoundary:
    """Hidden parameters and results, in order, behind those that the module declares."""

    parameters: tuple[HiddenSize, ...] = ()
    results: tuple[HiddenSize, ...] = ()
