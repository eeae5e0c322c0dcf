"""Forward convolutions for cuDNN.

Source: documentation of the cuDNN frontend, conv_fprop. Gradients with reversed windows or dilated
inputs are left to hloc's own kernels.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloc.codegen.builder.index import layout_strides
from hloc.codegen.gpu.emitters.gemm.gemm_epilogue import gemm_root, is_gemm
from hloc.codegen.gpu.library.arguments import operand_number, result_number
from hloc.codegen.gpu.library.epilogue import epilogue_of
from hloc.codegen.gpu.library_call import ConvolutionCall, Tensor
from hloc.codegen.kernels.gemm_problem import is_in_memory
from hloc.dtypes import BF16, F16, F32
from hloc.ir.attributes import Window
from hloc.ir.instruction import Instruction
from hloc.shapes import ArrayShape

_SPATIAL = (2, 3)
"""Numbers of spatial dimensions that cuDNN supports."""

_DTYPES = (F32, F16, BF16)


def match(inst: Instruction) -> ConvolutionCall | None:
    """Return the call for a convolution, None if cuDNN does not support it."""
    if not is_gemm(inst) or gemm_root(inst).opcode.name != "convolution":
        return None
    root = gemm_root(inst)
    a, labels = root.attributes, root.attributes.dim_labels
    window = (a.window or Window()).dimensions
    image, kernel = root.operands
    epilogue = epilogue_of(inst, root, labels.output_feature)
    if epilogue is None or not all(is_in_memory(inst, operand) for operand in root.operands):
        return None
    arrays = (image.array, kernel.array, inst.array)
    if any(array.dtype not in _DTYPES or not array.elements for array in arrays):
        return None
    if len({array.dtype for array in arrays}) > 1 or a.batch_group_count > 1:
        return None
    if len(window) not in _SPATIAL or any(
        d.base_dilation != 1 or d.reversal or min(d.pad_low, d.pad_high) < 0 for d in window
    ):
        return None
    return ConvolutionCall(
        inst.array.dtype,
        _tensor(
            operand_number(inst, image),
            image.array,
            (labels.input_batch, labels.input_feature, *labels.input_spatial),
        ),
        _tensor(
            operand_number(inst, kernel),
            kernel.array,
            (labels.kernel_output_feature, labels.kernel_input_feature, *labels.kernel_spatial),
        ),
        _tensor(
            result_number(inst),
            inst.array,
            (labels.output_batch, labels.output_feature, *labels.output_spatial),
        ),
        tuple(d.pad_low for d in window),
        tuple(d.pad_high for d in window),
        tuple(d.stride for d in window),
        tuple(d.window_dilation for d in window),
        None if epilogue.bias is None else operand_number(inst, epilogue.bias),
        epilogue.relu,
    )


def _tensor(argument: int, shape: ArrayShape, order: Sequence[int]) -> Tensor:
    steps = layout_strides(shape)
    return Tensor(argument, tuple(shape.dims[d] for d in order), tuple(steps[d] for d in order))
