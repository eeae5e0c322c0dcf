"""Results that stay on the device, for packages that read DLPack or the CUDA Array Interface."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from hloc.dtypes import Array
from hloc.runtime.array_spec import ArraySpec
from hloc.runtime.gpu.cuda import CudaDevice
from hloc.runtime.gpu.dlpack import CUDA, strides_of, type_code
from hloc.runtime.gpu.dlpack_export import export


class DeviceArray:
    """One array on a CUDA device, complete; its memory is freed with the last reference.

    Attributes:
        shape, dtype: as of a NumPy array.
        address: of its first element.
    """

    def __init__(self, spec: ArraySpec, device: CudaDevice) -> None:
        """Allocate uninitialised memory."""
        self._spec, self._device = spec, device
        self.shape, self.dtype = spec.dims, spec.numpy
        self.address = device.allocate(spec.shape.size_bytes)
        self._ways: set[str] = set()  # protocols by which its memory was exported
        weakref.finalize(self, _give_back, device, self.address, self._ways)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Return a copy in host memory."""
        if copy is False:
            raise ValueError("an array on a device cannot be read without a copy")
        spec = self._spec
        data = self._device.read(self.address, spec.shape.size_bytes)
        result: Array = data.view(spec.numpy).reshape(spec.physical_dims)
        if spec.axes is not None:
            result = result.transpose(spec.axes)
        return result if dtype is None else result.astype(dtype)

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, self._device.number

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Return a capsule over the same memory.

        All results are complete when they are returned, so no stream has to wait. All consumers
        accept capsules of the form before version 1.

        Raises:
            BufferError: a copy or another device is requested, or DLPack lacks the element type.
        """
        if copy or dl_device not in (None, self.__dlpack_device__()):
            raise BufferError("only this memory can be handed out, not a copy of it")
        kind = type_code(self._spec.shape.dtype)
        if kind is None:
            raise BufferError(f"DLPack has no type {self._spec.shape.dtype.name}")
        place = self.__dlpack_device__()
        self._ways.add("DLPack")
        return export(self.address, self.shape, strides_of(self._spec), kind, place, self)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The same memory by the CUDA Array Interface.

        Raises:
            AttributeError: it cannot name the element type.
        """
        if np.dtype(self.dtype.str) != self.dtype:
            raise AttributeError(f"the CUDA Array Interface has no type {self.dtype.name}")
        self._ways.add("CUDA Array Interface")
        size = self.dtype.itemsize
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "strides": tuple(stride * size for stride in strides_of(self._spec)),
            "data": (self.address, False),
            "version": 3,
            "stream": None,
        }


def _give_back(device: CudaDevice, address: int, ways: set[str]) -> None:
    """Free memory; the consumer may have released it while its own work was still running."""
    if ways:
        device.free_shared(address)
    else:
        device.free(address)
