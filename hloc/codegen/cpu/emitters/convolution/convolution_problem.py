"""What of a convolution decides which code computes it."""

from __future__ import annotations

from hloc.codegen.kernels.context import root_of
from hloc.codegen.kernels.gemm_problem import is_in_memory
from hloc.ir.attributes import ConvolutionDimensions, Window, WindowDimension
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.shapes import ArrayShape


@dataclass(frozen=True, slots=True)
class Convolution:
    """A convolution; operands that are computed are row-major."""

    result: ArrayShape
    lhs: ArrayShape
    rhs: ArrayShape
    dims: ConvolutionDimensions
    window: tuple[WindowDimension, ...]
    groups: int
    batch_groups: int


def convolution_of(inst: Instruction) -> Convolution | None:
    """Return the convolution at the root of `inst`; None for another root, or an empty result."""
    root = root_of(inst)
    if root.opcode.name != "convolution" or not root.array.elements:
        return None
    lhs, rhs = (
        o.array if is_in_memory(inst, o) else ArrayShape(o.array.dtype, o.array.dims)
        for o in root.operands
    )
    a = root.attributes
    window = (a.window or Window()).dimensions
    groups = a.feature_group_count, a.batch_group_count
    return Convolution(root.array, lhs, rhs, a.dim_labels, window, *groups)
