"""Kernels that read along one dimension and write along another: tiles in shared memory.

A block makes a tile with neighbouring threads at neighbouring places of the operand, and writes it
with neighbouring threads at neighbouring places of the result. Rows of a tile are one element
longer than the tile, so that neither way puts two threads of a warp on one bank.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from hloc.codegen.emitters import loop
from hloc.codegen.emitters.context import array_leaves, no_scratch
from hloc.codegen.gpu.context import GpuContext, LaunchWriter
from hloc.codegen.gpu.kernel import MAX_BLOCKS_YZ, GpuEmitter
from hloc.codegen.index import loop_order
from hloc.codegen.loops import IndexValue
from hloc.codegen.values import Value
from hloc.ir.instruction import Instruction

_TILE = 32
_ROWS = 8
"""Rows of a tile that a block makes at a time."""

_SMALLEST = 16
"""Sizes of both dimensions from which tiles pay."""


def _dimensions(inst: Instruction) -> tuple[int, int] | None:
    """Return the dimensions that are fastest in the operand and in the result, None if the same."""
    shapes = array_leaves(inst.shape)
    if len(shapes) != 1 or not loop.can_emit(inst) or loop.is_flat(inst):
        return None
    order = loop_order(shapes[0])
    if len(order) < 2:
        return None
    read = loop.read_fastest(inst, shapes[0], order, smallest=_SMALLEST)
    return None if read is None else (read, order[-1])


def can_emit(inst: Instruction) -> bool:
    """True for a result that is read along another dimension than it is written."""
    return _dimensions(inst) is not None


def emit(w: LaunchWriter) -> None:
    """Write one launch, a block per tile."""
    found = _dimensions(w.inst)
    assert found is not None
    read, written = found
    (shape,) = array_leaves(w.inst.shape)
    dims = shape.dims
    others = [d for d in loop_order(shape) if d not in found]
    tiles = [-(-dims[d] // _TILE) for d in found]
    count = prod(dims[d] for d in others)
    grid = (tiles[0] * tiles[1], min(count, MAX_BLOCKS_YZ), 1)
    with w.launch(grid, (_TILE, _ROWS, 1)) as k:
        m, x, y = k.math, k.thread("x"), k.thread("y")
        tile = k.shared_array(shape.dtype, (_TILE, _TILE + 1))
        first_read = m.mul(m.div(k.block_index("x"), tiles[1]), _TILE)
        first_written = m.mul(m.rem(k.block_index("x"), tiles[1]), _TILE)
        with k.body.loop(k.block_index("y"), count, grid[1]) as number:
            index: list[IndexValue] = [0] * shape.rank
            for dim, at in zip(others, m.delinear(number, [dims[d] for d in others]), strict=True):
                index[dim] = at
            for row in range(0, _TILE, _ROWS):
                line = m.add(y, row)
                index[read], index[written] = m.add(first_read, x), m.add(first_written, line)
                with k.body.when(_inside(k, index, dims, found)):
                    value = k.g.element(k.frame, k.root, tuple(index))
                    tile.store(m, (line, x), value)
            k.barrier()
            for row in range(0, _TILE, _ROWS):
                line = m.add(y, row)
                index[read], index[written] = m.add(first_read, line), m.add(first_written, x)
                with k.body.when(_inside(k, index, dims, found)):
                    k.output.store(m, tuple(index), tile.load(m, (x, line)))
            if count > grid[1]:
                k.barrier()  # before the tile is filled again


def _inside(
    k: GpuContext, index: Sequence[IndexValue], dims: Sequence[int], tiled: tuple[int, int]
) -> Value:
    """True where the place of a tile lies inside the result."""
    partial = [d for d in tiled if dims[d] % _TILE]
    return k.body.all_of([k.math.compare("LT", index[d], dims[d]) for d in partial])


EMITTER = GpuEmitter("transpose", can_emit, emit, no_scratch)
