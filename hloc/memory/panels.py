"""Matrices in panels: columns lie in memory as the kernels of products read them.

`f32[768,3072]{1,0:T(768,16)}` is 192 panels of 16 columns, one behind the other, each with all 768
rows: in XLA's notation of tiles, one that has all rows. Only constants lie so, and only where code
generation says it; tiles of layouts that a module brings along are for other machines, and dropped.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from hloc.analysis.call_graph import control_flow_computations
from hloc.ir.module import Module
from hloc.ir.traversal import reachable_computations
from hloc.shapes import ArrayShape, Layout


def in_panels(shape: ArrayShape, outer: int, width: int) -> ArrayShape:
    """Return `shape` with its fastest dimension in panels of `width`, which divides it.

    Args:
        shape: a layout without tiles.
        outer: how many of the slowest dimensions are batches: each has panels of its own.
        width: columns of a panel.
    """
    order = shape.minor_to_major
    rows = [shape.dims[dim] for dim in reversed(order[1 : shape.rank - outer])]
    return shape.with_layout(Layout(order, tiles=((*rows, width),)))


def panel_width(shape: ArrayShape) -> int:
    """Return the columns of a panel; 0 if the array does not lie in panels."""
    if shape.layout is None or not shape.layout.tiles:
        return 0
    return shape.layout.tiles[0][-1] or 0


def panel_strides(shape: ArrayShape, strides: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of an array, in elements, within a panel if it lies in panels.

    Args:
        shape: the array.
        strides: as if it did not lie in panels.
    """
    step = panel_width(shape)
    if not step:
        return strides
    assert shape.layout is not None
    found = list(strides)
    for dim in shape.minor_to_major[1 : len(shape.layout.tiles[0])]:
        found[dim] = step
        step *= shape.dims[dim]
    return tuple(found)


def panel_elements(shape: ArrayShape) -> int:
    """Return how many elements a panel has."""
    assert shape.layout is not None
    return prod(size or 1 for size in shape.layout.tiles[0])


def panel_order(array: np.ndarray[Any, Any], shape: ArrayShape) -> np.ndarray[Any, Any]:
    """Return an array, given in the order of its dimensions in memory, panel by panel."""
    width = panel_width(shape)
    if not width:
        return array
    assert shape.layout is not None
    *batches, columns = array.shape[: array.ndim - len(shape.layout.tiles[0])] + array.shape[-1:]
    panels = array.reshape(*batches, -1, columns // width, width)
    return panels.swapaxes(-3, -2)


def drop_tiles(module: Module) -> None:
    """Take the tiles out of all layouts of arrays: this memory has none."""
    roots = control_flow_computations(module)
    with module.log.acting("drop-tiles"):
        for computation in reachable_computations(*roots):
            for inst in computation.instructions:
                shape = inst.shape
                if isinstance(shape, ArrayShape) and shape.layout and shape.layout.tiles:
                    plain = Layout(shape.minor_to_major)
                    computation.set_shape(inst, shape.with_layout(plain))
