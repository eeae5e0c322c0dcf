"""Convolutions with sharded spatial dimensions: each device fetches the rows it reads.

If the kernel is sharded along the same dimension, as in the gradient of weights, the results
of the devices are partial sums. Feature groups are not divided. Elements outside of the array are
zeros and multiplied like others, as in XLA: an infinite weight gives NaN there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hloc.ir.attributes import Window, WindowDimension
from hloc.ir.instruction import Instruction
from hloc.opt.spmd.halo import Span, exchanged, halo_bytes, span_of
from hloc.opt.spmd.region import Region, Value
from hloc.opt.spmd.reshard import reshard, reshard_bytes
from hloc.opt.spmd.sums import reducer, summed
from hloc.opt.spmd.tiling import Axes, Tiling, replicated


def partition_convolution(
    region: Region, inst: Instruction, values: Sequence[Value], wanted: Tiling | None
) -> Value | None:
    """Keep the sharding of batch, groups and spatial dimensions of the input."""
    at, (lhs, rhs) = inst.attributes, values[:2]
    if len(values) != 2 or at.batch_group_count != 1:
        return None
    plan = _plan(region, inst, lhs, rhs)
    if plan is None or not (plan.spans or plan.groups > 1):
        return None
    gathered = plan.lhs.whole_along([span.dim for span in plan.spans])
    whole_kernel = replicated(region.mesh, rhs.whole.rank)
    if _cost(plan, inst, lhs, rhs) > (
        reshard_bytes(lhs, gathered) + reshard_bytes(rhs, whole_kernel)
    ):
        return None
    b = region.build
    x, kernel = reshard(region, lhs, plan.lhs), reshard(region, rhs, plan.rhs)
    zero = b.constant(0, x.whole.dtype)
    local = x.inst
    for span in plan.spans:
        local = exchanged(region, local, span, span.axes, lhs.whole.dims[span.dim], zero)
    shape = replace(inst.array, dims=plan.result.local_dims(inst.array.dims))
    attributes = replace(
        at,
        window=at.window and Window(tuple(plan.window)),
        feature_group_count=at.feature_group_count // plan.groups,
    )
    found = region.computation.add(inst.opcode, shape, (local, kernel.inst), attributes)
    region.annotated(found)
    if plan.sums:
        add = reducer(region, "add", inst.array.dtype)
        value = summed(region, found, inst.array, plan.result, plan.sums, add, wanted)
    else:
        value = region.value(found, inst.array, plan.result)
    return value if wanted is None else reshard(region, value, wanted)


class _Plan:
    """How a convolution is partitioned.

    Attributes:
        lhs, rhs, result: tilings.
        window: the window on each device.
        spans: the ranges read from the input along sharded dimensions.
        sums: axes along which the results are partial sums.
        groups: number of parts of the feature groups.
    """

    def __init__(self, lhs: Tiling, rhs: Tiling, result: Tiling, window: Window) -> None:
        self.lhs, self.rhs, self.result = lhs, rhs, result
        self.window = list(window.dimensions)
        self.spans: list[Span] = []
        self.sums: Axes = ()
        self.groups = 1


def _plan(region: Region, inst: Instruction, lhs: Value, rhs: Value) -> _Plan | None:
    """Return what each device computes of a convolution, None if a spatial split is not possible.

    Per sharded spatial dimension of the input: if the kernel is sharded alike, devices compute
    partial sums over their part; otherwise each computes its part of the output.
    """
    at, mesh = inst.attributes, region.mesh
    labels = at.dim_labels
    plan = _Plan(
        replicated(mesh, lhs.whole.rank),
        replicated(mesh, rhs.whole.rank),
        replicated(mesh, inst.array.rank),
        at.window or Window(()),  # none without spatial dimensions
    )
    batch = lhs.tiling.dims[labels.input_batch]
    plan.lhs = plan.lhs.with_dim(labels.input_batch, batch)
    plan.result = plan.result.with_dim(labels.output_batch, batch)
    _split_features(plan, inst, lhs, rhs)
    for i, dim in enumerate(labels.input_spatial):
        axes = lhs.tiling.dims[dim]
        if not axes:
            continue
        out, inner = labels.output_spatial[i], labels.kernel_spatial[i]
        plan.lhs = plan.lhs.with_dim(dim, axes)
        if rhs.tiling.dims[inner] == axes:
            found = _contracted(region, dim, axes, plan.window[i], inst.array.dims[out])
            plan.rhs = plan.rhs.with_dim(inner, axes)
            plan.sums += axes
        else:
            found = _output_span(region, dim, axes, plan.window[i], inst.array.dims[out])
            plan.result = plan.result.with_dim(out, axes)
        if found is None:
            return None
        span, plan.window[i] = found
        plan.spans.append(span)
    return plan


def _split_features(plan: _Plan, inst: Instruction, lhs: Value, rhs: Value) -> None:
    """Shard feature groups as the input, or else output features as the kernel."""
    at = inst.attributes
    labels, mesh = at.dim_labels, plan.lhs.mesh
    axes = lhs.tiling.dims[labels.input_feature]
    groups = at.feature_group_count
    if axes and groups > 1 and groups % mesh.size(axes) == 0:
        plan.groups = mesh.size(axes)
        plan.lhs = plan.lhs.with_dim(labels.input_feature, axes)
    else:
        axes = rhs.tiling.dims[labels.kernel_output_feature]
        if groups > 1 or set(axes) & lhs.tiling.axes:
            return
    plan.rhs = plan.rhs.with_dim(labels.kernel_output_feature, axes)
    plan.result = plan.result.with_dim(labels.output_feature, axes)


def _output_span(
    region: Region, dim: int, axes: Axes, window: WindowDimension, results: int
) -> tuple[Span, WindowDimension] | None:
    """Return the range read by tiles of the result, and the window on each; None if they differ."""
    extent = (window.size - 1) * window.window_dilation + 1
    span = span_of(
        dim, axes, region.mesh, results, first=-window.pad_low, stride=window.stride, extent=extent
    )
    step = window.base_dilation
    if step == 1:
        return span, replace(window, pad_low=0, pad_high=0)
    before = {-start % step for start in span.starts}
    if len(before) != 1:
        return None
    (low,) = before
    starts = tuple((start + low) // step for start in span.starts)
    size = max(0, (span.size - 1 - low) // step + 1)
    used = tuple(max(0, (used - 1 - low) // step + 1) for used in span.used)
    high = span.size - low - ((size - 1) * step + 1)
    if not size:
        return None
    return Span(dim, axes, starts, size, used), replace(window, pad_low=low, pad_high=high)


def _contracted(
    region: Region, dim: int, axes: Axes, window: WindowDimension, results: int
) -> tuple[Span, WindowDimension] | None:
    """Return the range multiplied with tiles of the kernel, and the window on each."""
    count = region.mesh.size(axes)
    if window.base_dilation != 1 or window.reversal or window.size % count:
        return None  # padding of the kernel would be multiplied with infinities of the input
    tile = window.size // count
    size = (tile - 1) * window.window_dilation + (results - 1) * window.stride + 1
    starts = tuple(c * tile * window.window_dilation - window.pad_low for c in range(count))
    local = replace(window, size=tile, pad_low=0, pad_high=0)
    return Span(dim, axes, starts, size, (size,) * count), local


def _cost(plan: _Plan, inst: Instruction, lhs: Value, rhs: Value) -> float:
    """Return the bytes that each device sends."""
    cost = reshard_bytes(lhs, plan.lhs) + reshard_bytes(rhs, plan.rhs)
    shape = replace(lhs.whole, dims=plan.lhs.local_dims(lhs.whole.dims))
    for span in plan.spans:
        cost += halo_bytes(shape, span, span.axes, lhs.whole.dims[span.dim])
        dims = [span.size if d == span.dim else n for d, n in enumerate(shape.dims)]
        shape = replace(shape, dims=tuple(dims))
    if plan.sums:
        n = plan.lhs.mesh.size(plan.sums)
        split = plan.lhs.mesh.size(plan.result.axes)
        cost += 2 * (n - 1) / n * inst.array.size_bytes / split
    return cost
