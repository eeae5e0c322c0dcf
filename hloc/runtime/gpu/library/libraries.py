"""The library calls of one module: prepared once per stream; their errors become hloc's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias

from hloc.codegen.gpu.library_call import (
    CholeskyCall,
    ConvolutionCall,
    FourierCall,
    LibraryCall,
    MatmulCall,
)
from hloc.errors import HloError
from hloc.runtime.gpu.cuda_driver import CudaError
from hloc.runtime.gpu.library.cublaslt import Matmul
from hloc.runtime.gpu.library.cudnn import Convolution
from hloc.runtime.gpu.library.cufft import Fourier
from hloc.runtime.gpu.library.cusolver import Cholesky
from hloc.runtime.gpu.library.packages import library_module
from hloc.runtime.gpu.library.prepared import DeviceMemory, Prepared

Handles: TypeAlias = dict[tuple[str, int], Any]
"""Handles by library and stream; they live as long as the device."""


class Libraries:
    """The calls of one module.

    Each call on a stream has its own work area, so that equal calls may run concurrently.
    """

    def __init__(self, memory: DeviceMemory, handles: Handles) -> None:
        self._memory, self._handles = memory, handles
        self._prepared: dict[tuple[LibraryCall, int], Prepared] = {}

    def prepare(self, call: LibraryCall, stream: int) -> Prepared:
        """Return a call that is ready for a stream; the device's context is current.

        Raises:
            UnsupportedError: the package is not installed, or the library does not support it.
            CudaError: a library function fails.
        """
        key = (call, stream)
        if key not in self._prepared:
            with _faults(call):
                self._prepared[key] = self._prepare(call, stream)
        return self._prepared[key]

    def run(self, call: LibraryCall, arguments: Sequence[int], stream: int) -> None:
        """Make a call on a stream; raises as `prepare`."""
        prepared = self.prepare(call, stream)
        with _faults(call):
            prepared.run(arguments, stream)

    def _prepare(self, call: LibraryCall, stream: int) -> Prepared:
        api = library_module(call.library)
        match call:
            case MatmulCall():
                return Matmul(api, self._handle(call.library, api.create, stream), call)
            case FourierCall():
                return Fourier(api, call)
            case CholeskyCall():
                handle = self._handle(call.library, api.create, stream)
                return Cholesky(api, handle, call, self._memory)
            case ConvolutionCall():
                handle = self._handle(call.library, api.create_handle, stream)
                return Convolution(api, handle, call, self._memory)

    def _handle(self, library: str, create: Any, stream: int) -> Any:
        key = (library, stream)
        if key not in self._handles:
            self._handles[key] = create()
        return self._handles[key]

    def close(self) -> None:
        """Free the resources of all calls; none is running. Never raises: it also runs at exit."""
        for prepared in self._prepared.values():
            with suppress(Exception):
                prepared.close()
        self._prepared.clear()


@contextmanager
def _faults(call: LibraryCall) -> Iterator[None]:
    """Convert the exceptions of packages to hloc's error."""
    try:
        yield
    except HloError:
        raise
    except Exception as fault:
        raise CudaError(f"{call.library}: {fault}") from fault
