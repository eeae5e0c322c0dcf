"""Convolutions of a dilated input as dense ones, whose results are interleaved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import prod

from hloc.ir.attributes import Window, WindowDimension
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.ops.builder import Builder
from hloc.opt.contraction.convolution_numbers import Places, is_grouped, places_of, window_of
from hloc.opt.expander import Expander, is_static
from hloc.shapes import ArrayShape

_FEW_RESIDUES = 9
"""Most residues for which kernels skip the holes themselves, with a product for each.

Time relative to a loop that tests for holes, f32 with AVX2: 0.05 for 16x16x96, with 48 windows of
4x4 and stride 4; 0.07 for 16x16x128, with 3 windows of 8x8 and stride 8, and 0.13 for 16x16x64 with
stride 4; 0.06 for 14x14x384, with 3 windows of 16x16 and stride 16; 0.12 for 300x128, with one
window of 20 and stride 10; 0.28 for 14x14x512, with 256 windows of one element and stride 2. Over
one product per residue: 0.8 to 1.0 for 2x2 and stride 2, but 1.0 to 1.4 for 4x4.
"""

_MOST_CONVOLUTIONS = 8
"""Most dense convolutions: two for each of three dimensions."""


@dataclass(frozen=True, slots=True)
class _Group:
    """Residues of a dimension whose windows begin at the same input elements.

    Attributes:
        start, stop: their places among the residues of the kernel, the last of which comes first.
        pad_low: padding of the dense convolution.
    """

    start: int
    stop: int
    pad_low: int


class TransposedConvolutionRewriter(Expander):
    """Replace convolutions of an input with holes by dense convolutions.

    With n - 1 holes between input elements, every n-th element of a window meets an input element;
    which ones depends on the position modulo n, the residue. Where n divides the window's size, all
    residues have windows of the same size, at one of two places of the input. So the kernels of the
    residues become output features of at most two dense convolutions a dimension, and the results
    are interleaved. A window of one element is moved to every n-th position instead, by a pad.
    The same products are summed. Cost: the kernel and the result are copied. Left alone: up to 9
    residues of windows of several elements, which hloc's kernels compute as well in place.
    """

    acts_on = frozenset({"convolution"})

    def when(self, inst: Instruction) -> bool:
        """Replace those whose holes no kernel skips."""
        if len(inst.operands) != 2 or not is_static(inst) or is_grouped(inst):
            return False
        if any(0 in array.array.dims for array in (inst, *inst.operands)):
            return False
        dilated = [d for d in window_of(inst).dimensions if d.base_dilation > 1]
        if not all(d.stride == d.window_dilation == 1 for d in dilated):
            return False
        tiled = [d for d in dilated if d.size > 1]
        if any(d.size % d.base_dilation for d in tiled):
            return False
        has_points = len(tiled) < len(dilated)
        pays = has_points or prod(d.base_dilation for d in tiled) > _FEW_RESIDUES
        return pays and prod(len(_groups(d)) for d in tiled) <= _MOST_CONVOLUTIONS

    def expand(self, inst: Instruction) -> Instruction:
        """Pad where the window is one element; interleave dense convolutions elsewhere."""
        b, places = Builder(inst.computation), places_of(inst)
        window = window_of(inst).dimensions
        input_dims, dims = inst.operands[0].array.dims, list(inst.array.dims)
        low, high, interior = ([0] * len(dims) for _ in range(3))
        dense = list(window)
        for i, d in enumerate(window):
            if d.base_dilation > 1 and d.size == 1:
                at = places.output[2 + i]
                low[at], high[at], interior[at] = d.pad_low, d.pad_high, d.base_dilation - 1
                dims[at] = input_dims[places.input[2 + i]]
                dense[i] = replace(d, base_dilation=1, pad_low=0, pad_high=0)
        if any(d.base_dilation > 1 for d in dense):
            found = _interleaved(b, inst, dense, dims)
        else:
            found = _convolution(inst, inst.operands[1], dense, dims, places)
        if not any(interior):
            return found
        return b.pad(found, b.constant(0, inst.array.dtype), low, high, interior)


def _groups(d: WindowDimension) -> list[_Group]:
    """Return the residues of a dimension that share a convolution, in the order of positions."""
    holes = d.base_dilation
    before, last = divmod(d.pad_low, holes)
    first = holes - 1 - last
    groups = [_Group(first, holes, before)]
    if first:
        groups.append(_Group(0, first, before - 1))
    return groups


def _interleaved(
    b: Builder, inst: Instruction, window: Sequence[WindowDimension], dims: Sequence[int]
) -> Instruction:
    """Return the result of size `dims` from dense convolutions of all residues."""
    places = places_of(inst)
    tiled = [i for i, d in enumerate(window) if d.base_dilation > 1]
    kernel = _kernel_by_residue(b, inst, window, tiled)
    input_dims, feature = inst.operands[0].array.dims, places.output[1]
    groups = [_groups(window[i]) for i in tiled]
    whole = list(dims)
    for i in tiled:
        at = places.output[2 + i]
        whole[at] = -(-dims[at] // window[i].base_dilation)
    parts = []
    for chosen in product(*groups):
        dense, sizes = list(window), list(whole)
        for i, group in zip(tiled, chosen, strict=True):
            d, at = window[i], places.output[2 + i]
            size = d.size // d.base_dilation
            high = whole[at] + size - 1 - input_dims[places.input[2 + i]] - group.pad_low
            dense[i] = replace(d, size=size, pad_low=group.pad_low, pad_high=high, base_dilation=1)
        counts = [group.stop - group.start for group in chosen]
        sizes[feature] *= prod(counts)
        labels = replace(places, kernel=_kernel_places(len(window)))
        part = _part_of_kernel(b, kernel, len(window), chosen)
        found = _convolution(inst, part, dense, sizes, labels)
        split = [*whole[:feature], *counts, *whole[feature:]]
        parts.append(b.reshape(found, split))
    for axis in reversed(range(len(tiled))):
        size = len(groups[axis])
        rows = [parts[i : i + size] for i in range(0, len(parts), size)]
        parts = [b.concatenate(row, feature + axis) if size > 1 else row[0] for row in rows]
    residues = {places.output[2 + i]: feature + axis for axis, i in enumerate(tiled)}
    order: list[int] = []
    for dim in range(len(dims)):
        order.append(dim if dim < feature else dim + len(tiled))
        order += [residues[dim]] if dim in residues else []
    for i in tiled:
        whole[places.output[2 + i]] *= window[i].base_dilation
    found = b.reshape(b.transpose(parts[0], order), whole)
    return found if whole == list(dims) else b.slice(found, [0] * len(dims), dims)


def _kernel_by_residue(
    b: Builder, inst: Instruction, window: Sequence[WindowDimension], tiled: Sequence[int]
) -> Instruction:
    """Return the kernel as [window..., input feature, residue..., output feature]."""
    places, kernel = places_of(inst), inst.operands[1]
    holes = {places.kernel[2 + i]: window[i].base_dilation for i in tiled}
    split: list[int] = []
    at, residue_at = {}, {}
    for dim, size in enumerate(kernel.array.dims):
        at[dim] = len(split)
        split.append(size // holes.get(dim, 1))
        if dim in holes:
            residue_at[dim] = len(split)
            split.append(holes[dim])
    found = b.reshape(kernel, split)
    # Later positions meet earlier elements of the window, unless that runs backwards.
    forward = [residue_at[places.kernel[2 + i]] for i in tiled if not window[i].reversal]
    if forward:
        found = b.reverse(found, forward)
    residues = [residue_at[places.kernel[2 + i]] for i in tiled]
    spatial = [at[dim] for dim in places.kernel[2:]]
    return b.transpose(found, [*spatial, at[places.kernel[0]], *residues, at[places.kernel[1]]])


def _part_of_kernel(
    b: Builder, kernel: Instruction, spatial: int, chosen: Sequence[_Group]
) -> Instruction:
    """Return the kernels of some residues, as output features."""
    dims = list(kernel.array.dims)
    start, stop = [0] * len(dims), list(dims)
    for axis, group in enumerate(chosen):
        start[spatial + 1 + axis], stop[spatial + 1 + axis] = group.start, group.stop
    part = b.slice(kernel, start, stop) if any(start) or stop != dims else kernel
    kept = spatial + 1
    return b.reshape(part, [*dims[:kept], prod(part.array.dims[kept:])])


def _kernel_places(spatial: int) -> tuple[int, ...]:
    """Return the dimension numbers of a kernel [window..., input feature, output feature]."""
    return spatial, spatial + 1, *range(spatial)


def _convolution(
    inst: Instruction,
    kernel: Instruction,
    window: Sequence[WindowDimension],
    dims: Sequence[int],
    places: Places,
) -> Instruction:
    """Add a convolution like `inst` with another kernel, window and result."""
    attributes = replace(inst.attributes, window=Window(tuple(window)), dim_labels=places.labels)
    shape = ArrayShape(inst.array.dtype, tuple(dims))
    operands = inst.operands[0], kernel
    return inst.computation.add(
        inst.opcode, shape, operands, attributes, common=inst.common, span=inst.span
    )
