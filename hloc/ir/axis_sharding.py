"""Shardings by mesh axes, as Shardy and HLO's named form write them."""

from __future__ import annotations

from typing import TypeAlias

from hloc.ir.replica_groups import DeviceMesh, MeshAxis
from hloc.lazy_dataclass import dataclass

Axes: TypeAlias = tuple[MeshAxis, ...]


@dataclass(frozen=True, slots=True)
class AxisSharding:
    """How one array is sharded over a mesh.

    Attributes:
        dims: the axes along each dimension, the major one first.
        open_dims: the dimensions that may be sharded further.
        priorities: per dimension; 0 is the highest.
        replicated: axes along which the array must stay replicated; it also is along those not
            named.
        unreduced: axes along which each device holds a part of a reduction.
        manual: axes by which the shape is already divided.
        reduction: that of the unreduced axes: `sum`, `max` or `min`.
    """

    mesh: DeviceMesh
    dims: tuple[Axes, ...]
    open_dims: frozenset[int] = frozenset()
    priorities: tuple[int, ...] = ()
    replicated: Axes = ()
    unreduced: Axes = ()
    manual: Axes = ()
    reduction: str = "sum"
