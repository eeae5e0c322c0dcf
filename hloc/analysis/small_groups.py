"""Convolutions of groups of few features, which lie side by side in all three arrays."""

from __future__ import annotations

from hloc.dtypes import F32, F64
from hloc.ir.attributes import Window
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.shapes import ArrayShape, dense_strides

MAX_INPUTS = 8
"""Most input features of a group for which they are moved between lanes."""

SPATIAL_DIMS = 3
"""Most spatial dimensions."""

_FEWEST_FEATURES = 4


@dataclass(frozen=True, slots=True)
class SmallGroups:
    """Features per group of a convolution whose vectors hold the features of several groups."""

    inputs: int
    outputs: int


def small_groups(
    convolution: Instruction, lhs: ArrayShape, rhs: ArrayShape, bits: int
) -> SmallGroups | None:
    """Return the groups of a convolution, None if they are not small.

    Args:
        convolution: the instruction.
        lhs: the input as it lies in memory.
        rhs: the kernel as it lies in memory.
        bits: of a vector, which holds the output features of at least one group.
    """
    a, out = convolution.attributes, convolution.array
    labels, groups, dtype = a.dim_labels, a.feature_group_count, out.dtype
    features = out.dims[labels.output_feature]
    window = (a.window or Window()).dimensions
    if a.batch_group_count > 1 or groups == 1 or features < _FEWEST_FEATURES:
        return None
    if {lhs.dtype, rhs.dtype, dtype} != {dtype} or dtype not in (F32, F64):
        return None
    if len(window) > SPATIAL_DIMS or any(d.base_dilation > 1 for d in window):
        return None
    kernel = _strides(rhs)
    steps = (
        _strides(lhs)[labels.input_feature],
        kernel[labels.kernel_output_feature],
        _strides(out)[labels.output_feature],
    )
    inputs, outputs = rhs.dims[labels.kernel_input_feature], features // groups
    if steps != (1, 1, 1) or inputs > MAX_INPUTS:
        return None
    if inputs > 1 and kernel[labels.kernel_input_feature] != features:
        return None
    return SmallGroups(inputs, outputs) if outputs * dtype.bits <= bits else None


def _strides(shape: ArrayShape) -> tuple[int, ...]:
    return dense_strides(shape.dims, shape.minor_to_major)
