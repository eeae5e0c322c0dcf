"""Sums of products of f8 in the tensor cores of sm_90, which keep fewer bits than those of f32.

The addends of an instruction are aligned to the largest, and of each the 14 highest bits count. The
PTX document promises single precision, but a device was measured to do this. Source: DeepSeek-AI,
"DeepSeek-V3 Technical Report" (2024), section 3.5.2; that the accumulator is aligned with the
products, and that bits are cut off towards zero, is an assumption.
"""

from __future__ import annotations

import numpy as np

from hloc.ptx.value_types import Array

_BITS = 14
_ROWS = 16
"""Rows at a time, to bound memory."""


def with_narrow_sums(left: Array, right: Array, sums: Array) -> Array:
    """Return `sums + left @ right.T` of f64 with 14 bits per addend.

    Args:
        left: [rows, depth].
        right: [columns, depth].
        sums: [rows, columns].
    """
    result = np.empty(sums.shape)
    for first in range(0, len(left), _ROWS):
        rows = slice(first, first + _ROWS)
        products = left[rows, None, :] * right
        addends = np.concatenate([products, sums[rows, :, None]], axis=2)
        largest = np.abs(addends).max(axis=2)
        unit = np.ldexp(1.0, np.frexp(largest)[1] - _BITS)
        result[rows] = np.trunc(addends / unit[:, :, None]).sum(axis=2) * unit
    return result
