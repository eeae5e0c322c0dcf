"""Convert convolutions that are matrix products to dots."""

from __future__ import annotations

from hloc.ir.attributes import WindowDimension
from hloc.ir.instruction import Instruction
from hloc.ops.builder import Builder
from hloc.opt.contraction.convolution_numbers import is_grouped, places_of, window_of
from hloc.opt.contraction.dot_numbers import resized
from hloc.opt.expander import Expander, is_static
from hloc.shapes import ArrayShape


class ConvolutionToDot(Expander):
    """Replace a convolution whose window is one element, or the whole input, by a dot.

    In every spatial dimension the window either has size 1 and moves in steps of 1, or covers all
    elements once, unpadded. The former are free in the dot, the latter are contracted beside the
    input features; a reversed window reverses the kernel. The same products are summed. Cost:
    O(instructions), and a transpose where the output has another order. Not in -O2: hloc's kernels
    for convolutions compute such products as fast. Source: the rule for convolutions of XLA's
    algebraic simplifier.
    """

    acts_on = frozenset({"convolution"})

    def when(self, inst: Instruction) -> bool:
        if len(inst.operands) != 2 or not is_static(inst) or is_grouped(inst):
            return False
        dims = inst.operands[0].array.dims
        spatial = places_of(inst).input[2:]
        return all(
            _is_point(d) or _is_whole(d, dims[at])
            for d, at in zip(window_of(inst).dimensions, spatial, strict=True)
        )

    def expand(self, inst: Instruction) -> Instruction:
        """Contract input features and the dimensions that the window covers; the rest is free."""
        b, places = Builder(inst.computation), places_of(inst)
        window = window_of(inst).dimensions
        lhs, rhs = inst.operands
        free = [i for i, d in enumerate(window) if _is_point(d)]
        whole = [i for i, d in enumerate(window) if not _is_point(d)]
        reversed_dims = [places.kernel[2 + i] for i in whole if window[i].reversal]
        if reversed_dims:
            rhs = b.reverse(rhs, reversed_dims)
        # Kernel dimensions of size 1 that are not contracted go away.
        gone = [places.kernel[2 + i] for i in free]
        kept = [dim for dim in range(rhs.array.rank) if dim not in gone]
        rhs = resized(b, rhs, [rhs.array.dims[dim] for dim in kept])
        lhs_contracting = [places.input[1], *(places.input[2 + i] for i in whole)]
        rhs_contracting = [places.kernel[0], *(places.kernel[2 + i] for i in whole)]
        numbers = {
            "lhs_contracting_dims": tuple(lhs_contracting),
            "rhs_contracting_dims": tuple(kept.index(dim) for dim in rhs_contracting),
            "operand_precision": inst.attributes.operand_precision,
        }
        lhs_free = [dim for dim in range(lhs.array.rank) if dim not in lhs_contracting]
        features = inst.array.dims[places.output[1]]
        dims = (*(lhs.array.dims[dim] for dim in lhs_free), features)
        dot = b.instruction("dot", (lhs, rhs), shape=ArrayShape(inst.array.dtype, dims), **numbers)
        # Where each dimension of the dot goes; the whole ones are 1 in the output.
        target = {places.input[0]: places.output[0]}
        target |= {places.input[2 + i]: places.output[2 + i] for i in free}
        at = [*(target[dim] for dim in lhs_free), places.output[1]]
        order = sorted(range(len(at)), key=at.__getitem__)
        moved = dot if order == sorted(order) else b.transpose(dot, order)
        return resized(b, moved, inst.array.dims)


def _is_point(d: WindowDimension) -> bool:
    return d.size == 1 and d.stride == 1 and _is_unpadded(d)


def _is_whole(d: WindowDimension, size: int) -> bool:
    """True if the one window is the whole dimension; several cannot fit."""
    return d.size == size and d.window_dilation == 1 and _is_unpadded(d)


def _is_unpadded(d: WindowDimension) -> bool:
    return d.pad_low == d.pad_high == 0 and d.base_dilation == 1
