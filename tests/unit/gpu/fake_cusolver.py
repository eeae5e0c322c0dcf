"""cuSOLVER on the fake driver."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.unit.gpu.fake_library import FakeLibrary


class FakeSolver(FakeLibrary):
    """cuSOLVER, dense; leaves the other triangle as it was."""

    def _buffer_size(self, handle: int, triangle: int, size: int, a: int, leading: int) -> int:
        return size

    _spotrf_buffer_size = _dpotrf_buffer_size = _buffer_size
    _cpotrf_buffer_size = _zpotrf_buffer_size = _buffer_size

    def _factor(self, dtype: Any, *arguments: int) -> None:
        handle, triangle, size, a, leading, workspace, elements, fault = arguments
        assert leading == size

        def work() -> None:
            self.write(workspace, np.full(elements, np.nan, dtype))
            matrix = self.read(a, size * size, dtype).reshape(size, size).T.copy()
            upper = triangle == 1
            kept = np.triu(matrix) if upper else np.tril(matrix)
            other = np.triu(matrix, 1) if upper else np.tril(matrix, -1)
            whole = kept + other.conj().T
            bad = 0
            try:
                found = np.linalg.cholesky(whole)
                found = found.conj().T if upper else found
                matrix = np.where(np.triu(np.ones((size, size))) > 0, found, matrix) if upper else (
                    np.where(np.tril(np.ones((size, size))) > 0, found, matrix)
                )  # fmt: skip
            except np.linalg.LinAlgError:
                bad = 1
            self.write(a, matrix.T.astype(dtype))
            self.write(fault, np.array([bad], np.int32))

        self.work(self.streams[handle], work)

    def _spotrf(self, *arguments: int) -> None:
        self._factor(np.float32, *arguments)

    def _dpotrf(self, *arguments: int) -> None:
        self._factor(np.float64, *arguments)

    def _cpotrf(self, *arguments: int) -> None:
        self._factor(np.complex64, *arguments)

    def _zpotrf(self, *arguments: int) -> None:
        self._factor(np.complex128, *arguments)
