"""Expand grouped convolutions into ungrouped ones."""

from __future__ import annotations

from dataclasses import replace

from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.ops.builder import Builder
from hloc.opt.contraction.convolution_numbers import is_grouped, places_of
from hloc.opt.expander import expand_all, is_static
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.shapes import ArrayShape


@dataclass(frozen=True)
class ConvolutionGroupConverter(RewritingPass):
    """Replace batch groups by feature groups, and feature groups by one convolution each.

    Batch group g of the input is convolved with output features g: with the groups moved from the
    batch to the features that is a convolution with feature groups. The feature groups are sliced
    apart, convolved one by one and concatenated; a convolution with more than `max_groups` is left
    alone. Every element is the same sum as before. Cost: O(instructions + groups). Not in -O2:
    hloc's kernels take groups. Source: XLA's pass of this name, which masks the kernel instead;
    that would make NaN of an infinity.
    """

    max_groups: int = 64

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Convert in every computation."""

        def is_convertible(inst: Instruction) -> bool | str:
            if len(inst.operands) != 2 or not is_static(inst) or not is_grouped(inst):
                return False
            groups = inst.attributes.feature_group_count
            if groups > self.max_groups:
                return f"{groups} feature groups, the limit is {self.max_groups}"
            return True

        opcodes = ("convolution",)
        expand_all(module, context, self.name, opcodes, _by_features, _has_batch_groups)
        expand_all(module, context, self.name, opcodes, _one_by_one, is_convertible)


def _has_batch_groups(inst: Instruction) -> bool:
    is_plain = len(inst.operands) == 2 and is_static(inst)
    return is_plain and inst.attributes.batch_group_count > 1


def _by_features(inst: Instruction) -> Instruction:
    """Move the groups from the batch of the input to its features."""
    b = Builder(inst.computation)
    lhs, rhs = inst.operands
    groups = inst.attributes.batch_group_count
    batch, feature = places_of(inst).input[:2]
    dims = list(lhs.array.dims)
    split = [*dims[:batch], groups, dims[batch] // groups, *dims[batch + 1 :]]
    grouped = b.reshape(lhs, split)
    # The groups' dimension, at `batch`, goes in front of the features, which stand after it or not.
    at = feature + (feature > batch)
    order = [d for d in range(len(split)) if d != batch]
    order.insert(order.index(at), batch)
    dims[batch] //= groups
    dims[feature] *= groups
    moved = b.reshape(b.transpose(grouped, order), dims)
    attributes = replace(inst.attributes, batch_group_count=1, feature_group_count=groups)
    return inst.computation.add(
        inst.opcode, inst.shape, (moved, rhs), attributes, common=inst.common
    )


def _one_by_one(inst: Instruction) -> Instruction:
    """Convolve the feature groups one by one and join the results."""
    b = Builder(inst.computation)
    groups = inst.attributes.feature_group_count
    places = places_of(inst)
    attributes = replace(inst.attributes, feature_group_count=1)
    dims = list(inst.array.dims)
    dims[places.output[1]] //= groups
    shape = ArrayShape(inst.array.dtype, tuple(dims))
    lhs, rhs = inst.operands
    parts = [
        inst.computation.add(
            inst.opcode,
            shape,
            (
                _part(b, lhs, places.input[1], group, groups),
                _part(b, rhs, places.kernel[1], group, groups),
            ),
            attributes,
            common=inst.common,
        )
        for group in range(groups)
    ]
    return b.concatenate(parts, places.output[1])


def _part(b: Builder, x: Instruction, dim: int, group: int, groups: int) -> Instruction:
    """Return one of `groups` equal parts of `x` along `dim`."""
    limits, starts = list(x.array.dims), [0] * x.array.rank
    size = limits[dim] // groups
    starts[dim], limits[dim] = group * size, (group + 1) * size
    return b.slice(x, starts, limits)
