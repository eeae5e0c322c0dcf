"""Panel layout: a matrix as panels of adjacent columns, in the order in which gemms read it.

`f32[768,3072]{1,0:T(768,16)}` is 192 panels of 16 columns, one after the other, each with all 768
rows; in XLA's notation, a tile that spans all rows. Code generation chooses this layout, for
constants only. Tiles in the layouts of a module are meant for other machines and are dropped.
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
        outer: number of batch dimensions, the slowest ones; each batch has panels of its own.
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
        strides: those without panels.
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
    """Return the elements panel by panel; the dimensions of `array` are ordered as in memory."""
    width = panel_width(shape)
    if not width:
        return array
    assert shape.layout is not None
    *batches, columns = array.shape[: array.ndim - len(shape.layout.tiles[0])] + array.shape[-1:]
    panels = array.reshape(*batches, -1, columns // width, width)
    return panels.swapaxes(-3, -2)


def drop_tiles(module: Module) -> None:
    """Remove the tiles from all layouts of arrays."""
    roots = control_flow_computations(module)
    with module.log.acting("drop-tiles"):
        for computation in reachable_computations(*roots):
            for inst in computation.instructions:
                shape = inst.shape
                if isinstance(shape, ArrayShape) and shape.layout and shape.layout.tiles:
                    plain = Layout(shape.minor_to_major)
                    computation.set_shape(inst, shape.with_layout(plain))
