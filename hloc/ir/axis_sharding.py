"""How an array is spread over the axes of a mesh: what Shardy and HLO's named form say."""

from __future__ import annotations

from typing import TypeAlias

from hloc.ir.replica_groups import DeviceMesh, MeshAxis
from hloc.lazy_dataclass import dataclass

Axes: TypeAlias = tuple[MeshAxis, ...]


@dataclass(frozen=True, slots=True)
class AxisSharding:
    """How one array is spread over a mesh.

    Attributes:
        dims: the axes along each dimension, the major one first.
        open_dims: the dimensions that may be split further.
        priorities: per dimension; 0 is first.
        replicated: axes along which the array must stay whole; so it is along those not named.
        unreduced: axes along which each device holds a part of a reduction.
        manual: axes whose split is in the shape already.
        reduction: of what is unreduced: `sum`, `max` or `min`.
    """

    mesh: DeviceMesh
    dims: tuple[Axes, ...]
    open_dims: frozenset[int] = frozenset()
    priorities: tuple[int, ...] = ()
    replicated: Axes = ()
    unreduced: Axes = ()
    manual: Axes = ()
    reduction: str = "sum"
