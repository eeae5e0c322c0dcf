"""Tensors of PyTorch and arrays of hloc: types, and views of the same memory."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from hloc.dtypes import DTYPES, DType
from hloc.errors import UnsupportedError
from hloc.shapes import ArrayShape

_NAMES = {
    "bool": "pred", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "int8": "s8", "int16": "s16", "int32": "s32", "int64": "s64", "float16": "f16",
    "bfloat16": "bf16", "float32": "f32", "float64": "f64", "complex64": "c64",
    "complex128": "c128", "float8_e4m3fn": "f8e4m3fn", "float8_e5m2": "f8e5m2",
    "float8_e4m3fnuz": "f8e4m3fnuz", "float8_e5m2fnuz": "f8e5m2fnuz",
}  # fmt: skip


def dtype_of(kind: Any) -> DType:
    """Return the element type for a `torch.dtype`.

    Raises:
        UnsupportedError: HLO has none.
    """
    name = str(kind).removeprefix("torch.")
    if name not in _NAMES:
        raise UnsupportedError(f"hloc has no element type for {kind}")
    return DTYPES[_NAMES[name]]


@cache
def torch_dtype(dtype: DType) -> Any:
    """Return the `torch.dtype` of an element type."""
    import torch

    return getattr(torch, {hlo: name for name, hlo in _NAMES.items()}[dtype.name])


def shape_of(tensor: Any) -> ArrayShape:
    """Return the shape of a tensor, `f32[2,3]`."""
    return ArrayShape(dtype_of(tensor.dtype), tuple(int(size) for size in tensor.shape))


def to_array(tensor: Any) -> np.ndarray[Any, Any]:
    """Return the tensor's memory as an array; it is copied only if it is not contiguous."""
    tensor = tensor.detach().contiguous().resolve_conj().resolve_neg()
    numpy = dtype_of(tensor.dtype).numpy
    if numpy.isbuiltin == 1:
        return np.asarray(tensor.numpy())
    import torch

    bits = {1: torch.uint8, 2: torch.int16}[tensor.element_size()]
    return np.asarray(tensor.view(bits).numpy()).view(numpy)


def to_tensor(array: np.ndarray[Any, Any], dtype: DType) -> Any:
    """Return a tensor in the memory of `array`."""
    import torch

    array = np.asarray(array)
    if dtype.numpy.isbuiltin == 1:
        return torch.from_numpy(array)
    bits = array.view({1: np.uint8, 2: np.int16}[array.itemsize])
    return torch.from_numpy(bits).view(torch_dtype(dtype))
