"""Select-and-scatter along sharded dimensions: the gradient of a pooling.

A device computes every window that overlaps its tile of the result: it fetches their
elements and sources from neighbours (`halo.py`), and keeps the elements of its tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hloc.ir.attributes import WindowDimension
from hloc.ir.instruction import Instruction
from hloc.opt.spmd.combine import identity, opcode_of
from hloc.opt.spmd.halo import Span, by_tile, exchanged, halo_bytes
from hloc.opt.spmd.region import Region, Value
from hloc.opt.spmd.reshard import reshard, reshard_bytes
from hloc.opt.spmd.tiling import Axes, Mesh, Tiling


def partition_select_and_scatter(
    region: Region, inst: Instruction, values: Sequence[Value], wanted: Tiling | None
) -> Value | None:
    """Compute the windows that overlap a tile of the result on the tile's device."""
    x, source = values[:2]
    tiling, windows = x.tiling, inst.attributes.window.dimensions
    opcode = opcode_of(inst.called[1])
    cut = [d for d, axes in enumerate(tiling.dims) if axes and windows[d] != WindowDimension(1)]
    if not cut or not opcode or not all(_is_simple(windows[d]) for d in cut):
        return None
    pairs = [_spans(d, tiling.dims[d], region.mesh, x.whole.dims[d], windows[d]) for d in cut]
    whole = tiling.whole_along(cut)
    cost = reshard_bytes(source, tiling)
    part = replace(source.whole, dims=tiling.local_dims(source.whole.dims))
    for of_x, of_source in pairs:
        dim, axes = of_x.dim, of_x.axes
        cost += halo_bytes(x.inst.array, of_x, axes, x.whole.dims[dim])
        cost += halo_bytes(part, of_source, axes, source.whole.dims[dim])
    if cost > reshard_bytes(x, whole) + reshard_bytes(source, whole):
        return None
    b = region.build
    init = reshard(region, values[2], region.whole(0)).inst
    neutral = b.constant(identity(opcode, source.whole.dtype), source.whole.dtype)
    local, sources = x.inst, reshard(region, source, tiling).inst
    for of_x, of_source in pairs:
        dim, axes = of_x.dim, of_x.axes
        local = exchanged(region, local, of_x, axes, x.whole.dims[dim], None)
        sources = exchanged(region, sources, of_source, axes, source.whole.dims[dim], neutral)
    found = region.annotated(
        region.computation.add(
            inst.opcode,
            replace(inst.array, dims=local.array.dims),
            (local, sources, init),
            inst.attributes,
            inst.called,
        )
    )
    starts, sizes = [region.zero()] * x.whole.rank, list(local.array.dims)
    for of_x, _ in pairs:
        tile = x.inst.array.dims[of_x.dim]
        own = [number * tile - start for number, start in enumerate(of_x.starts)]
        starts[of_x.dim], sizes[of_x.dim] = by_tile(region, of_x.axes, own), tile
    kept = region.annotated(b.dynamic_slice(found, starts, sizes))
    value = region.value(kept, inst.array, tiling)
    return value if wanted is None else reshard(region, value, wanted)


def _is_simple(window: WindowDimension) -> bool:
    """True if windows leave no gaps and read no padding."""
    plain = WindowDimension(window.size, stride=window.stride)
    return window == plain and window.size >= window.stride


def _spans(
    dim: int, axes: Axes, mesh: Mesh, whole: int, window: WindowDimension
) -> tuple[Span, Span]:
    """Return the ranges of the operand and the source that a tile of `dim` needs.

    Window i reads the elements `[i * stride, i * stride + size)`. Windows before the
    first or after the last one of the source are included: their sources are neutral.
    """
    count, size, stride = mesh.size(axes), window.size, window.stride
    tile = -(-whole // count)
    firsts, windows, most = list[int](), list[int](), 0
    for begin in range(0, tile * count, tile):
        first = -((size - 1 - begin) // stride)
        end = min(begin + tile, whole)
        most = max(most, (begin + tile - 1) // stride - first + 1)
        windows.append((end - 1) // stride - first + 1 if end > begin else 0)
        firsts.append(first)
    read = tuple((n - 1) * stride + size if n else 0 for n in windows)
    starts = tuple(first * stride for first in firsts)
    return (
        Span(dim, axes, starts, (most - 1) * stride + size, read),
        Span(dim, axes, tuple(firsts), most, tuple(windows)),
    )
