"""Opcodes that read a range of neighbours along sharded dimensions.

`slice`, `pad`, `concatenate`, `reverse`, `reduce-window` and `convolution` fetch elements from
neighbours (`halo.py`) and then run on each device unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from hloc.dtypes import S32
from hloc.ir.attributes import PaddingDimension, SliceDimension, Window, WindowDimension
from hloc.ir.instruction import Instruction
from hloc.opt.spmd.halo import Span, by_tile, exchanged, halo_bytes, span_of
from hloc.opt.spmd.region import Region, Value
from hloc.opt.spmd.reshard import reshard, reshard_bytes
from hloc.opt.spmd.tiling import Tiling
from hloc.shapes import ArrayShape, TupleShape


def partition_slice(
    region: Region, inst: Instruction, values: Sequence[Value], wanted: Tiling | None
) -> Value | None:
    """Slice along sharded dimensions: each device fetches the elements of its part."""
    (x,) = values
    parts = inst.attributes.slice
    if not _is_cut(x, [d for d, p in enumerate(parts) if p.start or p.limit != x.whole.dims[d]]):
        return None
    tiling = x.tiling
    spans = [
        span_of(
            d, axes, region.mesh, inst.array.dims[d], first=parts[d].start, stride=parts[d].stride
        )
        for d, axes in enumerate(tiling.dims)
        if axes
    ]
    if not _is_cheaper(x, spans):
        return None
    local = _exchanged(region, x, spans, None)
    ranges = list(parts)
    for span in spans:
        ranges[span.dim] = SliceDimension(0, span.size, parts[span.dim].stride)
    whole = [SliceDimension(0, size, 1) for size in local.array.dims]
    if ranges != whole:
        b = region.build
        local = region.annotated(b.instruction("slice", (local,), slice=tuple(ranges)))
    return _result(region, local, inst, tiling, wanted)


def partition_pad(
    region: Region, inst: Instruction, values: Sequence[Value], wanted: Tiling | None
) -> Value | None:
    """Pad sharded dimensions: tiles are shifted, and filled where they are outside."""
    x, value = values[0], reshard(region, values[1], region.whole(0))
    padding = inst.attributes.padding
    if not _is_cut(x, [d for d, p in enumerate(padding) if p.low or p.high or p.interior]):
        return None
    if any(p.interior for p, axes in zip(padding, x.tiling.dims, strict=True) if axes):
        return None
    spans = [
        span_of(d, axes, region.mesh, inst.array.dims[d], first=-padding[d].low)
        for d, axes in enumerate(x.tiling.dims)
        if axes
    ]
    if not _is_cheaper(x, spans):
        return None
    local = _exchanged(region, x, spans, value.inst)
    split = {span.dim for span in spans}
    rest = [PaddingDimension(0, 0) if d in split else p for d, p in enumerate(padding)]
    if any(p.low or p.high or p.interior for p in rest):
        b = region.build
        local = b.instruction("pad", (local, value.inst), padding=tuple(rest))
    return _result(region, local, inst, x.tiling, wanted)


def partition_concatenate(
    region: Region, inst: Instruction, values: Sequence[Value], wanted: Tiling | None
) -> Value | None:
    """Concatenate along a sharded dimension: each device fetches its part of every operand."""
    (dim,) = inst.attributes.dimensions
    largest = max(values, key=lambda value: value.whole.elements)
    tiling = wanted if wanted is not None and wanted.dims[dim] else largest.tiling
    axes = tiling.dims[dim]
    if not axes or len(values) > _MOST_OPERANDS:
        return None
    first, spans, cost, gathered = 0, list[Span](), 0.0, 0.0
    targets = []
    for value in values:
        own = axes if value.tiling.dims[dim] else ()
        target = tiling.with_dim(dim, own)
        span = span_of(dim, axes, region.mesh, inst.array.dims[dim], first=-first)
        span = replace(span, used=_overlap(span, value.whole.dims[dim]))
        part = replace(value.whole, dims=target.local_dims(value.whole.dims))
        cost += reshard_bytes(value, target) + halo_bytes(part, span, own, value.whole.dims[dim])
        gathered += reshard_bytes(value, tiling.with_dim(dim, ()))
        first += value.whole.dims[dim]
        targets.append(target)
        spans.append(span)
    if cost > gathered or (not cost and not gathered and wanted is None):
        return None
    result = None
    for value, target, span in reversed(list(zip(values, targets, spans, strict=True))):
        x = reshard(region, value, target)
        local = exchanged(region, x.inst, span, target.dims[dim], value.whole.dims[dim], None)
        end = -span.starts[0] + value.whole.dims[dim]
        result = local if result is None else _before(region, local, result, span, end)
    assert result is not None
    return _result(region, result, inst, tiling, wanted)


_MOST_OPERANDS = 16
"""Limit on operands: with more, the selections would cost more than the bytes."""


def _overlap(span: Span, whole: int) -> tuple[int, ...]:
    """Return how many elements of a span are inside of the array."""
    return tuple(
        max(0, min(used, whole - start)) for start, used in zip(span.starts, span.used, strict=True)
    )


def _before(region: Region, x: Instruction, y: Instruction, span: Span, end: int) -> Instruction:
    """Return `x` before element `end` of the whole result, `y` from there on."""
    b, dims = region.build, x.array.dims
    bounds = [end - (start - span.starts[0]) for start in span.starts]
    places = b.iota(S32, dims, span.dim)
    bound = b.broadcast(by_tile(region, span.axes, bounds), dims)
    return region.annotated(b.select(b.compare(places, bound, "LT"), x, y))


def partition_reverse(
    region: Region, inst: Instruction, values: Sequence[Value], wanted: Tiling | None
) -> Value | None:
    """Reverse sharded dimensions: tiles are exchanged, and each is reversed."""
    (x,) = values
    turned = [d for d in inst.attributes.dimensions if x.tiling.dims[d]]
    if not turned:
        return None
    local = x.inst
    for dim in turned:
        axes, whole = x.tiling.dims[dim], x.whole.dims[dim]
        groups = region.mesh.groups(axes).lists()
        pairs = sorted((s, t) for g in groups for s, t in zip(g, reversed(g), strict=True))
        local = region.permute(local, pairs)
        padded = local.array.dims[dim] * region.mesh.size(axes)
        local = region.build.reverse(local, (dim,))
        span = span_of(dim, axes, region.mesh, whole, first=padded - whole)
        local = exchanged(region, local, span, axes, padded, None)
    rest = [d for d in inst.attributes.dimensions if d not in turned]
    if rest:
        local = region.build.reverse(local, rest)
    return _result(region, local, inst, x.tiling, wanted)


def partition_reduce_window(
    region: Region, inst: Instruction, values: Sequence[Value], wanted: Tiling | None
) -> Value | None:
    """Fetch the elements that windows read from other tiles; outside are initial values."""
    count = len(values) // 2
    if isinstance(inst.shape, TupleShape):
        return None
    x, init = values[0], reshard(region, values[1], region.whole(0))
    dims = inst.attributes.window.dimensions
    if count != 1 or not _is_cut(x, [d for d, w in enumerate(dims) if w != WindowDimension(1)]):
        return None
    split = [(dims[d], size) for d, size in enumerate(x.whole.dims) if x.tiling.dims[d]]
    if any(w.base_dilation != 1 or 2 * w.size > size for w, size in split):
        return None  # a cumulative sum reads most of the array: gather it once for all users
    spans = [
        _window_span(region, d, axes, dims[d], inst.array.dims[d])
        for d, axes in enumerate(x.tiling.dims)
        if axes
    ]
    if not _is_cheaper(x, spans):
        return None
    local = _exchanged(region, x, spans, init.inst)
    window = _without_padding(inst.attributes.window, [span.dim for span in spans])
    shape = replace(inst.array, dims=x.tiling.local_dims(inst.array.dims))
    found = region.computation.add(
        inst.opcode, shape, (local, init.inst), replace(inst.attributes, window=window), inst.called
    )
    return _result(region, region.annotated(found), inst, x.tiling, wanted)


def _window_span(
    region: Region, dim: int, axes: tuple[int, ...], window: WindowDimension, results: int
) -> Span:
    extent = (window.size - 1) * window.window_dilation + 1
    return span_of(
        dim, axes, region.mesh, results, first=-window.pad_low, stride=window.stride, extent=extent
    )


def _without_padding(window: Window, dims: Iterable[int]) -> Window:
    found = list(window.dimensions)
    for dim in dims:
        found[dim] = replace(found[dim], pad_low=0, pad_high=0)
    return Window(tuple(found))


# ---------------------------------------------------------------- shared


def _is_cut(x: Value, dims: Sequence[int]) -> bool:
    """True if `x` is sharded along one of `dims`."""
    return any(x.tiling.dims[dim] for dim in dims)


def _is_cheaper(x: Value, spans: Sequence[Span]) -> bool:
    """True if the exchange sends no more than gathering the dimensions."""
    moved, cost, shape = [], 0.0, x.inst.array
    for span in spans:
        if any(start != i * shape.dims[span.dim] for i, start in enumerate(span.starts)) or (
            span.size != shape.dims[span.dim]
        ):
            moved.append(span.dim)
        axes = x.tiling.dims[span.dim]
        cost += halo_bytes(shape, span, axes, x.whole.dims[span.dim])
        dims = [span.size if d == span.dim else n for d, n in enumerate(shape.dims)]
        shape = ArrayShape(shape.dtype, tuple(dims))
    return cost <= reshard_bytes(x, x.tiling.whole_along(moved))


def _exchanged(
    region: Region, x: Value, spans: Sequence[Span], fill: Instruction | None
) -> Instruction:
    local = x.inst
    for span in spans:
        axes = x.tiling.dims[span.dim]
        local = exchanged(region, local, span, axes, x.whole.dims[span.dim], fill)
    return local


def _result(
    region: Region, local: Instruction, inst: Instruction, tiling: Tiling, wanted: Tiling | None
) -> Value:
    found = region.value(local, inst.array, tiling)
    assert local.array.dims == tiling.local_dims(inst.array.dims), (local, inst, tiling.dims)
    return found if wanted is None else reshard(region, found, wanted)
