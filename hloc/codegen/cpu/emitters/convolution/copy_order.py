"""The order of dimensions in copies of a convolution's input and kernel.

Packing reads elements with a stride one by one if they are narrow, so that a copy with features
side by side may be worth its time.
"""

from __future__ import annotations

from hloc.codegen.cpu.emitters.convolution.convolution_problem import Convolution
from hloc.codegen.cpu.emitters.convolution.grouped_convolution import kernel_by_features
from hloc.codegen.cpu.emitters.convolution.padded_input import Padded
from hloc.codegen.cpu.emitters.convolution.padding_routine import SIDE
from hloc.dtypes import BF16, F16
from hloc.memory.panels import panel_width
from hloc.shapes import ArrayShape

MOST_TURNED_BYTES, MIN_TURNED_FEATURES = 2, 16
"""Most bytes of an element for which copies of input and kernel may have features side by side;
fewest features if windows are read in lines of the input otherwise, and elements are bf16.

Narrow elements with a stride are packed one by one. Time relative to the input's order, windows of
3x3 over channels-first 2x64x28x28, channels-first results and channels-last ones: matrix registers,
bf16 0.87 and 0.13, with stride 2 0.30 and 0.26, s8 0.57 and 0.10, 0.18 and 0.16; AVX-512, f16 with
stride 2 0.53 and 0.77; AVX2, bf16 0.95 and 0.85, 0.64 and 0.85, s8 0.72 and 0.79, 0.73 and 0.80. 3
features, windows of 7x7 with stride 2 over 224x224: 0.24 and 0.17 for bf16 and s8, 1.2 and 0.9
with AVX2, f16 1.3 to 1.6. Windows of 16x16 apart 2.4, of 5 over a sequence 1.36, f16 with 8
features and stride 1 1.4, bf16 with AVX2 1.26. Of f32, which vectors gather, 1.0 to 1.8.
"""


def order_of_copy(c: Convolution) -> tuple[int, ...]:
    """Return the dimensions of a copy of the input, fastest first: its own, or features first."""
    feature, order = c.dims.input_feature, c.lhs.minor_to_major
    return (feature, *(dim for dim in order if dim != feature)) if _turns(c) else order


def _turns(c: Convolution) -> bool:
    """True if packing is faster where the features of the input, slower now, are side by side."""
    labels, dtype, fastest = c.dims, c.lhs.dtype, c.lhs.minor_to_major[0]
    features = c.lhs.dims[labels.input_feature] // c.groups
    is_narrow = dtype.storage_bytes <= MOST_TURNED_BYTES and features > 1
    if not is_narrow or fastest not in labels.input_spatial:
        return False
    window = c.window[labels.input_spatial.index(fastest)]
    if window.size >= SIDE and window.window_dilation == 1:
        return False  # runs along the window
    is_by_features = c.result.minor_to_major[0] == labels.output_feature
    if is_by_features or window.stride > 1:
        return features >= SIDE or dtype is not F16
    is_worth = dtype.is_integer or (dtype is BF16 and features >= MIN_TURNED_FEATURES)
    return is_worth and len(c.window) > 1


def copied_kernel_shape(c: Convolution, padded: Padded | None) -> ArrayShape | None:
    """Return the layout of a copy of the kernel whose features follow each other as in the input.

    None if the input is not copied in another order, or features are contiguous in the kernel.
    """
    if padded is None or not _turns(c) or panel_width(c.rhs):
        return None
    is_contiguous = c.rhs.minor_to_major[0] in (
        c.dims.kernel_input_feature,
        c.dims.kernel_output_feature,
    )
    return None if is_contiguous else kernel_by_features(c.rhs, c.dims)
