"""The threads of running blocks: rows, lanes, and the state spaces they access."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hloc.ptx.lanes import Geometry, Lanes
from hloc.ptx.value_types import Array

if TYPE_CHECKING:
    from hloc.ptx.copies import AsyncCopies
    from hloc.ptx.mbarriers import Mbarriers
    from hloc.ptx.metrics import Metrics
    from hloc.ptx.products import Products
    from hloc.ptx.spaces import Spaces


class Threads:
    """The state on which the instructions of one kernel operate."""

    def __init__(
        self,
        geometry: Geometry,
        rows: list[Array],
        spaces: Spaces,
        copies: AsyncCopies,
        mbarriers: Mbarriers,
        products: Products,
    ) -> None:
        """Begin with all lanes active."""
        self.geometry = geometry
        self.rows = rows
        self.spaces = spaces
        self.copies = copies
        self.mbarriers = mbarriers
        self.products = products
        self.metrics: Metrics | None = None
        self.active: Lanes = slice(0, geometry.lanes)  # of the current operation, for messages
        self.clock = 0

    def count_access(self, space: str, lanes: Lanes, addresses: Array, size: int) -> None:
        """Count one access of `size` bytes per lane, in a launch that counts them."""
        if self.metrics is not None:
            self.metrics.access(space, lanes, addresses, size)
