"""DLPack's structures, and zero-copy access to arrays of other packages.

Source: the DLPack header (version 1.1), Python Array API standard, CUDA Array Interface 3.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from hloc.dtypes import DType
from hloc.errors import HloError
from hloc.lazy_dataclass import dataclass
from hloc.memory.heap import alignment_of
from hloc.runtime.array_spec import ArraySpec
from hloc.shapes import dense_strides

CPU, CUDA = 1, 2
"""Kinds of devices."""

_SIGNED, _UNSIGNED, _FLOAT, _BFLOAT, _COMPLEX, _BOOL = 0, 1, 2, 4, 5, 6
_FLOAT8 = {
    "f8e3m4": 7, "f8e4m3": 8, "f8e4m3b11fnuz": 9, "f8e4m3fn": 10, "f8e4m3fnuz": 11,
    "f8e5m2": 12, "f8e5m2fnuz": 13, "f8e8m0fnu": 14,
}  # fmt: skip


class DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("dtype", DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),  # in elements; null if row-major
        ("byte_offset", ctypes.c_uint64),
    )


class ManagedTensor(ctypes.Structure):
    _fields_ = (
        ("tensor", Tensor),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


def type_code(dtype: DType) -> tuple[int, int] | None:
    """Return DLPack's code and bits of an element type, None if it has none."""
    if dtype.is_pred:
        return _BOOL, 8
    if dtype.is_integer:
        code = _SIGNED if dtype.is_signed else _UNSIGNED
        return (code, dtype.bits) if dtype.bits >= 8 else None
    if dtype.is_complex:
        return _COMPLEX, dtype.bits
    if dtype.name in _FLOAT8:
        return _FLOAT8[dtype.name], 8
    if dtype.bits < 16:
        return None
    return (_BFLOAT if dtype.name == "bf16" else _FLOAT), dtype.bits


def strides_of(spec: ArraySpec) -> tuple[int, ...]:
    """Return the strides in elements, by dimension, of an array that lies as the code expects."""
    return dense_strides(spec.dims, reversed(spec.order or range(len(spec.dims))))


class StreamOwner(Protocol):
    """The device that reads arguments."""

    number: int

    @property
    def stream(self) -> int:
        """Handle of the reading stream."""

    def wait_for(self, stream: int) -> None:
        """Let later reads wait for another stream."""


@dataclass(frozen=True, slots=True)
class Borrowed:
    """Memory of another package's array; it is valid as long as `owner` lives.

    Attributes:
        is_aligned: it has the alignment that kernels require.
    """

    address: int
    owner: object
    is_aligned: bool

    @classmethod
    def of(cls, address: int, owner: object, spec: ArraySpec) -> Borrowed:
        """Return the memory at `address`, which holds an array of `spec`."""
        return cls(address, owner, address % alignment_of(spec.shape.size_bytes) == 0)


def borrow(argument: Any, spec: ArraySpec, device: StreamOwner) -> Borrowed | None:
    """Return the memory of an array on the device, or None if `argument` is not one.

    Later work of the device waits for pending work of its package on it.

    Raises:
        HloError: it has another type, shape or layout, or is on another device.
    """
    where = getattr(argument, "__dlpack_device__", lambda: (CPU, 0))()
    if int(where[0]) == CUDA:
        if int(where[1]) != device.number:
            raise HloError(f"{spec.name} is on CUDA device {where[1]}, not {device.number}")
        capsule = argument.__dlpack__(stream=device.stream)
        return _checked(tensor_in(capsule), spec, capsule)
    interface = getattr(argument, "__cuda_array_interface__", None)
    if interface is None:
        return None
    if interface.get("stream") is not None:
        device.wait_for(int(interface["stream"]))
    numpy = np.dtype(interface["typestr"])
    strides = interface.get("strides")
    _check_shape(spec, numpy == spec.numpy, interface["shape"], str(numpy))
    if strides is not None:
        _check_strides(spec, [stride // numpy.itemsize for stride in strides])
    elif spec.order is not None:
        _check_strides(spec, _row_major(spec.dims))
    return Borrowed.of(int(interface["data"][0]), argument, spec)


_NAME = b"dltensor"


def tensor_in(capsule: Any) -> Tensor:
    """Return the tensor of a capsule; it is valid as long as the capsule lives."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    result: Tensor = ManagedTensor.from_address(get(capsule, _NAME)).tensor
    return result


def _checked(tensor: Tensor, spec: ArraySpec, capsule: object) -> Borrowed:
    dims = tuple(tensor.shape[: tensor.ndim])
    kind = tensor.dtype
    fits = (kind.code, kind.bits) == type_code(spec.shape.dtype) and kind.lanes == 1
    _check_shape(spec, fits, dims, f"type {kind.code}:{kind.bits} of DLPack")
    _check_strides(spec, tensor.strides[: tensor.ndim] if tensor.strides else _row_major(dims))
    return Borrowed.of((tensor.data or 0) + tensor.byte_offset, capsule, spec)


def _check_shape(spec: ArraySpec, same_type: bool, dims: Sequence[int], kind: str) -> None:
    if same_type and tuple(dims) == spec.dims:
        return
    raise HloError(
        f"{spec.name} must be {spec.shape.text_without_layout}, "
        f"but the argument is {kind}[{','.join(map(str, dims))}]"
    )


def _check_strides(spec: ArraySpec, strides: Sequence[int]) -> None:
    """Raise HloError if an array does not have the layout that the code expects."""
    wanted = strides_of(spec)
    if 0 in spec.dims or all(
        size == 1 or a == b for size, a, b in zip(spec.dims, strides, wanted, strict=True)
    ):
        return
    raise HloError(
        f"{spec.name} must have strides {list(wanted)}, but the argument has {list(strides)}",
        notes=("pass a contiguous copy of the argument",),
    )


def _row_major(dims: Sequence[int]) -> list[int]:
    strides, step = [], 1
    for size in reversed(dims):
        strides.append(step)
        step *= size
    return strides[::-1]
