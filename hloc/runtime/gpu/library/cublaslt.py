"""Gemms by cuBLASLt.

Source: cuBLAS documentation, chapter "Using the cuBLASLt API".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hloc.codegen.gpu.library_call import MatmulCall
from hloc.dtypes import BF16, C64, C128, F16, F32, F64, S8, S32, DType
from hloc.errors import UnsupportedError

CUDA_TYPES: dict[DType, int] = {F32: 0, F64: 1, F16: 2, S8: 3, C64: 4, C128: 5, S32: 10, BF16: 14}
"""Values of `cudaDataType`, from CUDA's header `library_types.h`."""

_COMPUTE_F32, _COMPUTE_TF32, _COMPUTE_F64, _COMPUTE_S32 = 68, 77, 70, 72
"""Values of `cublasComputeType_t`, from `cublas_api.h`."""

_TRANSPOSED = 1
"""`CUBLAS_OP_T`."""


class Matmul:
    """One prepared gemm; `close` destroys its descriptors."""

    def __init__(self, api: Any, handle: int, call: MatmulCall) -> None:
        """Choose an algorithm.

        Raises:
            UnsupportedError: cuBLASLt has none for this gemm.
        """
        self._api, self._handle, self._call = api, handle, call
        compute, scale = _arithmetic(call)
        number = np.dtype(scale.numpy)
        self._factors = np.array([1, 0], number)  # alpha and beta
        self._operation = api.matmul_desc_create(compute, CUDA_TYPES[scale])
        self._layouts: list[int] = []
        try:
            self._describe_all()
            self._algorithm = self._choose()
        except BaseException:
            self.close()
            raise

    def _describe_all(self) -> None:
        """Describe the matrices and the epilogue."""
        api, call = self._api, self._call
        attribute = api.MatmulDescAttribute
        if call.left_transposed:
            self._describe(attribute.TRANSA, np.int32(_TRANSPOSED))
        if call.right_transposed:
            self._describe(attribute.TRANSB, np.int32(_TRANSPOSED))
        if call.bias is not None or call.relu:
            kind = "_".join(["RELU"] * call.relu + ["BIAS"] * (call.bias is not None))
            self._describe(attribute.EPILOGUE, np.int32(getattr(api.Epilogue, kind)))
        for matrix in (call.left, call.right, call.result):
            layout = api.matrix_layout_create(
                CUDA_TYPES[matrix.dtype], matrix.rows, matrix.columns, matrix.leading
            )
            self._layouts.append(layout)  # before another call may fail
            if call.batch > 1:
                _repeat(api, layout, call.batch, matrix.batch_step)

    def _describe(self, attribute: int, value: Any) -> None:
        """Set an attribute of the operation."""
        held = np.array([value])
        self._api.matmul_desc_set_attribute(
            self._operation, int(attribute), held.ctypes.data, held.nbytes
        )

    def _choose(self) -> Any:
        """Return the algorithm that cuBLASLt's heuristic puts first."""
        api = self._api
        if self._call.bias is not None:  # the choice depends on its alignment, so pass a pointer
            self._describe(api.MatmulDescAttribute.BIAS_POINTER, np.uint64(256))
        held = np.array([self._call.workspace_bytes], np.uint64)
        which = int(api.MatmulPreferenceAttribute.MAX_WORKSPACE_BYTES)
        best = api.MatmulHeuristicResult()
        count = np.zeros(1, np.int32)
        left, right, result = self._layouts
        preference = api.matmul_preference_create()
        try:
            api.matmul_preference_set_attribute(preference, which, held.ctypes.data, held.nbytes)
            api.matmul_algo_get_heuristic(
                self._handle, self._operation, left, right, result, result,
                preference, 1, best.ptr, count.ctypes.data,
            )  # fmt: skip
        finally:
            api.matmul_preference_destroy(preference)
        if not count[0]:
            raise UnsupportedError("cuBLASLt has no algorithm for this GEMM")
        return best

    def run(self, arguments: Sequence[int], stream: int) -> None:
        """Enqueue the gemm on a stream."""
        call = self._call
        if call.bias is not None:
            pointer = np.uint64(arguments[call.bias])
            self._describe(self._api.MatmulDescAttribute.BIAS_POINTER, pointer)
        left, right, result = self._layouts
        first = self._factors.ctypes.data
        target = arguments[call.result.argument]
        self._api.matmul(
            self._handle, self._operation, first,
            arguments[call.left.argument], left,
            arguments[call.right.argument], right,
            first + self._factors.itemsize, target, result, target, result,
            self._algorithm.ptr,  # the algorithm is the first field
            arguments[call.workspace], call.workspace_bytes, stream,
        )  # fmt: skip

    def close(self) -> None:
        for layout in self._layouts:
            self._api.matrix_layout_destroy(layout)
        self._api.matmul_desc_destroy(self._operation)


def _arithmetic(call: MatmulCall) -> tuple[int, DType]:
    """Return the compute type, and the type of alpha and beta."""
    dtype = call.left.dtype
    if dtype is S8:
        return _COMPUTE_S32, S32
    if dtype in (F64, C128):
        return _COMPUTE_F64, dtype
    rounded = call.algorithm == "dot_tf32_tf32_f32"
    return (_COMPUTE_TF32 if rounded else _COMPUTE_F32), (C64 if dtype is C64 else F32)


def _repeat(api: Any, layout: int, batch: int, step: int) -> None:
    """Set the batch count and the batch stride, in elements, of a layout."""
    attribute = api.MatrixLayoutAttribute
    for which, value in (
        (attribute.BATCH_COUNT, np.int32(batch)),
        (attribute.STRIDED_BATCH_OFFSET, np.int64(step)),
    ):
        held = np.array([value])
        api.matrix_layout_set_attribute(layout, int(which), held.ctypes.data, held.nbytes)
