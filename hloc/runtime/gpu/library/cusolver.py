"""Cholesky factors by cuSOLVER, one matrix at a time.

Source: cuSOLVER documentation, cusolverDn<t>potrf. Its matrices are column-major, so it sees the
transpose of HLO's: the lower factor L of A is the transpose of the upper factor of A's transpose.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hloc.codegen.gpu.library_call import CholeskyCall
from hloc.dtypes import C64, C128, F32, F64, DType
from hloc.runtime.gpu.library.prepared import DeviceMemory

_LOWER, _UPPER = 0, 1
"""`CUBLAS_FILL_MODE_LOWER`, `CUBLAS_FILL_MODE_UPPER`."""

_PREFIXES: dict[DType, str] = {F32: "s", F64: "d", C64: "c", C128: "z"}
_FAULT_BYTES = 4


class Cholesky:
    """Factors of a batch, prepared."""

    def __init__(
        self,
        api: Any,
        handle: int,
        call: CholeskyCall,
        memory: DeviceMemory,
    ) -> None:
        self._api, self._handle, self._call, self._memory = api, handle, call, memory
        prefix = _PREFIXES[call.dtype]
        self._factor = getattr(api, f"{prefix}potrf")
        self._triangle = _UPPER if call.lower else _LOWER
        size_of = getattr(api, f"{prefix}potrf_buffer_size")
        # The pointer is not dereferenced.
        self._elements = size_of(handle, self._triangle, call.size, 0, call.size)
        self._workspace = memory.allocate(self._elements * call.dtype.storage_bytes)

    def run(self, arguments: Sequence[int], stream: int) -> None:
        """Enqueue all factorisations on a stream."""
        call = self._call
        source, target = arguments[call.source], arguments[call.target]
        matrix_bytes = call.size * call.size * call.dtype.storage_bytes
        if source != target:
            self._memory.copy_on(stream, target, source, matrix_bytes * call.batch)
        self._api.set_stream(self._handle, stream)
        for number in range(call.batch):
            self._factor(
                self._handle, self._triangle, call.size, target + number * matrix_bytes, call.size,
                self._workspace, self._elements, arguments[call.faults] + number * _FAULT_BYTES,
            )  # fmt: skip

    def close(self) -> None:
        self._memory.free(self._workspace)
