"""cuBLASLt on the fake driver."""

from __future__ import annotations

import ctypes
from enum import IntEnum
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np

from tests.unit.gpu.fake_library import POISON, FakeLibrary

_CUDA_TYPES: dict[int, Any] = {
    0: np.float32, 1: np.float64, 2: np.float16, 3: np.int8, 4: np.complex64, 5: np.complex128,
    10: np.int32, 14: ml_dtypes.bfloat16,
}  # fmt: skip


class FakeLt(FakeLibrary):
    """cuBLASLt."""

    class MatmulDescAttribute(IntEnum):
        TRANSA = 3
        TRANSB = 4
        EPILOGUE = 7
        BIAS_POINTER = 8

    class MatrixLayoutAttribute(IntEnum):
        BATCH_COUNT = 5
        STRIDED_BATCH_OFFSET = 6

    class MatmulPreferenceAttribute(IntEnum):
        MAX_WORKSPACE_BYTES = 1

    class Epilogue(IntEnum):
        RELU = 2
        BIAS = 4
        RELU_BIAS = 6

    def _MatmulHeuristicResult(self) -> Any:
        return SimpleNamespace(ptr=4096)

    def _matmul_desc_create(self, compute: int, scale: int) -> int:
        return self._made({"compute": compute, "scale": scale})

    def _matmul_desc_set_attribute(self, desc: int, which: int, buffer: int, size: int) -> None:
        value = int.from_bytes(ctypes.string_at(buffer, size), "little")
        self.things[desc][self.MatmulDescAttribute(which).name] = value

    def _matrix_layout_create(self, kind: int, rows: int, columns: int, leading: int) -> int:
        assert leading >= rows
        return self._made({"kind": kind, "dims": (rows, columns), "leading": leading})

    def _matrix_layout_set_attribute(self, layout: int, which: int, buffer: int, size: int) -> None:
        value = int.from_bytes(ctypes.string_at(buffer, size), "little")
        self.things[layout][self.MatrixLayoutAttribute(which).name] = value

    def _matmul_preference_create(self) -> int:
        return self._made({})

    def _matmul_preference_set_attribute(self, *arguments: int) -> None:
        pass

    def _matmul_algo_get_heuristic(self, *arguments: Any) -> None:
        *_, wanted, _found, count = arguments
        assert wanted == 1
        ctypes.c_int32.from_address(count).value = 1

    def _matmul_preference_destroy(self, preference: int) -> None:
        del self.things[preference]

    _matmul_desc_destroy = _matrix_layout_destroy = _matmul_preference_destroy

    def _matmul(
        self, handle: int, operation: int, alpha: int, a: int, a_layout: int, b: int, b_layout: int,
        beta: int, c: int, c_layout: int, d: int, d_layout: int, algorithm: int, workspace: int,
        workspace_bytes: int, stream: int,
    ) -> None:  # fmt: skip
        described = dict(self.things[operation])
        number = _CUDA_TYPES[described["scale"]]
        one, zero = (
            np.frombuffer(ctypes.string_at(p, np.dtype(number).itemsize), number)[0]
            for p in (alpha, beta)
        )
        assert (one, zero, c, c_layout, algorithm) == (1, 0, d, d_layout, 4096)

        def work() -> None:
            self.write(workspace, np.full(workspace_bytes, POISON, np.uint8))
            left = self._load(a, a_layout, "TRANSA" in described)
            right = self._load(b, b_layout, "TRANSB" in described)
            total = left @ right
            result = self.things[d_layout]
            kind = _CUDA_TYPES[result["kind"]]
            epilogue = described.get("EPILOGUE", 1)
            if epilogue & self.Epilogue.BIAS:
                bias = self.read(described["BIAS_POINTER"], result["dims"][0], kind)
                total = total + bias.astype(total.dtype)[:, None]
            if epilogue & self.Epilogue.RELU:
                total = np.maximum(total, 0)
            self._store(d, d_layout, total.astype(kind))

        self.work(stream, work)

    def _places(self, layout: int) -> Any:
        described = self.things[layout]
        rows, columns = described["dims"]
        batch = np.arange(described.get("BATCH_COUNT", 1))[:, None, None]
        return (
            batch * described.get("STRIDED_BATCH_OFFSET", 0)
            + np.arange(rows)[:, None]
            + np.arange(columns) * described["leading"]
        )

    def _load(self, address: int, layout: int, transposed: bool) -> Any:
        kind = _CUDA_TYPES[self.things[layout]["kind"]]
        places = self._places(layout)
        wide: Any = {np.int8: np.int32, np.float64: np.float64}.get(kind, np.float32)
        if np.issubdtype(kind, np.complexfloating):
            wide = np.complex128
        found = self.read(address, int(places.max()) + 1, kind)[places].astype(wide)
        return found.swapaxes(1, 2) if transposed else found

    def _store(self, address: int, layout: int, values: Any) -> None:
        places = self._places(layout)
        order = np.argsort(places.ravel())
        flat, at = values.ravel()[order], places.ravel()[order]
        starts = np.flatnonzero(np.diff(at, prepend=-2) != 1)
        for first, last in zip(starts, [*starts[1:], len(at)], strict=True):
            self.write(address + int(at[first]) * flat.itemsize, flat[first:last])
