"""Tensor maps by the driver: the descriptors of arrays for tile copies.

Source: CUDA driver API, `cuTensorMapEncodeTiled`.
"""

from __future__ import annotations

from typing import Any

from hloc.codegen.gpu.tensor_map import TensorMapArgument
from hloc.dtypes import BF16, F16, F32, DType
from hloc.runtime.gpu.cuda_driver import CudaDriver

_ELEMENTS: dict[DType, str] = {BF16: "BFLOAT16", F16: "FLOAT16", F32: "FLOAT32"}
"""The driver's names of types; all others have a byte."""


def encode_tensor_map(driver: CudaDriver, tiled: TensorMapArgument, address: int) -> Any:
    """Return the tensor map of an array at `address`, which a launch takes as an argument.

    Raises:
        CudaError: the driver rejects it, such as for an address that is not a multiple of 16.
    """
    api = driver.api
    kind = "TFLOAT32" if tiled.to_tf32 else _ELEMENTS.get(tiled.dtype, "UINT8")
    swizzle = f"{tiled.swizzle_bytes}B" if tiled.swizzle_bytes else "NONE"
    return driver.call(
        "cuTensorMapEncodeTiled",
        getattr(api.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{kind}"),
        len(tiled.dims),
        address,
        [api.cuuint64_t(size) for size in tiled.dims],
        [api.cuuint64_t(stride) for stride in tiled.strides],
        [api.cuuint32_t(size) for size in tiled.box],
        [api.cuuint32_t(1) for _ in tiled.dims],
        api.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        getattr(api.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{swizzle}"),
        api.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        api.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
