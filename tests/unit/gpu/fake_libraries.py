"""Stand-ins of NVIDIA's libraries on the fake driver: they read and write its memory, that late.

Only what hloc calls is there. `on_call` sees every call, so that tests can compare it with what the
real packages take.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from enum import IntEnum
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np

from tests.unit.gpu.fake_cuda import FakeCuda

_CUDA_TYPES: dict[int, Any] = {
    0: np.float32, 1: np.float64, 2: np.float16, 3: np.int8, 4: np.complex64, 5: np.complex128,
    10: np.int32, 14: ml_dtypes.bfloat16,
}  # fmt: skip
_POISON = 0x7F


class FakeLibrary:
    """One library; handles are small integers, and what belongs to each is in `things`."""

    def __init__(
        self, cuda: FakeCuda, on_call: Callable[[str, tuple[Any, ...]], None] | None = None
    ) -> None:
        self.cuda = cuda
        self.on_call = on_call
        self.things: dict[int, Any] = {}
        self.streams: dict[int, int] = {}
        self._next = 1

    def __getattr__(self, name: str) -> Any:
        function = getattr(type(self), f"_{name}")

        def call(*arguments: Any) -> Any:
            if self.on_call:
                self.on_call(name, arguments)
            return function(self, *arguments)

        return call

    def _made(self, thing: Any) -> int:
        self._next += 1
        self.things[self._next] = thing
        return self._next

    def _create(self) -> int:
        return self._made("handle")

    def _destroy(self, handle: int) -> None:
        del self.things[handle]

    def _set_stream(self, handle: int, stream: int) -> None:
        self.streams[handle] = stream

    def read(self, address: int, count: int, dtype: Any) -> Any:
        size = count * np.dtype(dtype).itemsize
        return np.asarray(self.cuda.memory.read(address, size)).view(dtype)

    def write(self, address: int, data: Any) -> None:
        self.cuda.memory.write(address, np.ascontiguousarray(data).view(np.uint8))

    def work(self, stream: int, work: Callable[[], None]) -> None:
        self.cuda._add(stream, work)


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
            self.write(workspace, np.full(workspace_bytes, _POISON, np.uint8))
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


class FakeFft(FakeLibrary):
    """cuFFT."""

    class Type(IntEnum):
        R2C = 42
        C2R = 44
        C2C = 41
        D2Z = 106
        Z2D = 108
        Z2Z = 105

    def _make_plan_many64(self, plan: int, rank: int, n: int, *rest: int) -> int:
        *embedding, kind, batch = rest
        assert embedding == [0, 1, 0, 0, 1, 0]
        lengths = tuple(int(size) for size in (ctypes.c_int64 * rank).from_address(n))
        self.things[plan] = (lengths, self.Type(kind), batch)
        return 0

    def _transform(self, plan: int, source: int, target: int, direction: int = 0) -> None:
        lengths, kind, batch = self.things[plan]
        half = (*lengths[:-1], lengths[-1] // 2 + 1)
        narrow = kind.name in ("C2C", "R2C", "C2R")
        dims = {"R": lengths, "D": lengths, "C": half, "Z": half}
        if kind.name in ("C2C", "Z2Z"):
            dims = {"C": lengths, "Z": lengths}
        dtypes = {"R": np.float32, "C": np.complex64, "D": np.float64, "Z": np.complex128}
        taken, given = kind.name[0], kind.name[2]
        axes = tuple(range(1, 1 + len(lengths)))

        def work() -> None:
            shape = (batch, *dims[taken])
            data = self.read(source, int(np.prod(shape)), dtypes[taken]).reshape(shape)
            found: Any
            if given in "RD":
                found = np.fft.irfftn(data, lengths, axes, norm="forward")
            elif taken in "RD":
                found = np.fft.rfftn(data, lengths, axes)
            else:
                backwards = direction == 1
                found = (
                    np.fft.ifftn(data, lengths, axes, norm="forward")
                    if backwards
                    else np.fft.fftn(data, lengths, axes)
                )
            self.write(target, found.astype(dtypes[given]))

        assert narrow == (dtypes[taken] in (np.float32, np.complex64))
        self.work(self.streams[plan], work)

    _exec_c2c = _exec_r2c = _exec_c2r = _exec_z2z = _exec_d2z = _exec_z2d = _transform


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


class _Node:
    """A tensor of the fake graph."""

    def __init__(self, make: Callable[[Any], Any], dims: Any = None, steps: Any = None) -> None:
        self.make, self.dims, self.steps, self.kind = make, dims, steps, None

    def set_output(self, is_output: bool) -> _Node:
        return self

    def set_data_type(self, kind: Any) -> _Node:
        self.kind = kind
        return self

    def set_dim(self, dims: list[int]) -> _Node:
        self.dims = dims
        return self

    def set_stride(self, steps: list[int]) -> _Node:
        self.steps = steps
        return self


class _Graph:
    def __init__(self, dnn: FakeDnn, **_types: Any) -> None:
        self._dnn = dnn
        self._last = _Node(lambda _: None)

    def tensor(self, *, name: str, dim: list[int], stride: list[int], data_type: Any) -> _Node:
        node = _Node(lambda pack: self._dnn.load(pack[node], node), dim, stride)
        node.kind = data_type
        return node

    def conv_fprop(self, *, image: _Node, weight: _Node, **numbers: list[int]) -> _Node:
        return self._then(lambda pack: _convolved(image.make(pack), weight.make(pack), **numbers))

    def bias(self, *, input: _Node, bias: _Node) -> _Node:
        return self._then(lambda pack: input.make(pack) + bias.make(pack))

    def relu(self, *, input: _Node) -> _Node:
        return self._then(lambda pack: np.maximum(input.make(pack), 0))

    def _then(self, make: Callable[[Any], Any]) -> _Node:
        self._last = _Node(make)
        return self._last

    def deselect_numeric_notes(self, notes: list[Any]) -> _Graph:
        return self

    def build(self, modes: list[Any]) -> None:
        assert self._last.kind

    def get_workspace_size(self) -> int:
        return 64

    def execute(self, pack: dict[_Node, int], workspace: int, *, handle: int) -> None:
        dnn = self._dnn

        def work() -> None:
            dnn.write(workspace, np.full(64, _POISON, np.uint8))
            dnn.store(pack[self._last], self._last, self._last.make(pack))

        dnn.work(dnn.streams[handle], work)


def _convolved(
    image: Any,
    weight: Any,
    pre_padding: list[int],
    post_padding: list[int],
    stride: list[int],
    dilation: list[int],
) -> Any:
    """Return the convolution of two spatial dimensions, by definition."""
    sides = [(0, 0), (0, 0), *zip(pre_padding, post_padding, strict=True)]
    padded = np.pad(image, sides)
    features, channels, *window = weight.shape
    groups = image.shape[1] // channels
    reach = [(w - 1) * d + 1 for w, d in zip(window, dilation, strict=True)]
    sizes = [(n - r) // s + 1 for n, r, s in zip(padded.shape[2:], reach, stride, strict=True)]
    result = np.zeros((image.shape[0], features, *sizes), image.dtype)
    each = features // groups
    for feature in range(features):
        first = feature // each * channels
        for y, x in np.ndindex(*sizes):
            part = padded[
                :, first : first + channels,
                y * stride[0] : y * stride[0] + reach[0] : dilation[0],
                x * stride[1] : x * stride[1] + reach[1] : dilation[1],
            ]  # fmt: skip
            result[:, feature, y, x] = (part * weight[feature]).sum(axis=(1, 2, 3))
    return result


class FakeDnn(FakeLibrary):
    """cuDNN's frontend."""

    data_type = SimpleNamespace(
        FLOAT=np.float32, HALF=np.float16, BFLOAT16=ml_dtypes.bfloat16, NOT_SET=None
    )
    heur_mode = SimpleNamespace(A="A")
    numerical_note = SimpleNamespace(TENSOR_CORE="TENSOR_CORE")

    def pygraph(self, **types: Any) -> _Graph:
        return _Graph(self, **types)

    def create_handle(self) -> int:
        return self._made("handle")

    def set_stream(self, handle: int, stream: int) -> None:
        self.streams[handle] = stream

    def load(self, address: int, node: _Node) -> Any:
        places = _strided(node)
        flat = self.read(address, int(places.max()) + 1, node.kind)
        return flat[places].astype(np.float32)

    def store(self, address: int, node: _Node, values: Any) -> None:
        assert values.shape == tuple(node.dims)
        places = _strided(node)
        flat = np.empty(places.size, node.kind)
        flat[places] = values
        self.write(address, flat)


def _strided(node: _Node) -> Any:
    grids = np.indices(node.dims)
    return sum(grid * step for grid, step in zip(grids, node.steps, strict=True))


def fake_libraries(
    cuda: FakeCuda, on_call: Callable[[str, str, tuple[Any, ...]], None] | None = None
) -> dict[str, Any]:
    """Return a stand-in for each library; `on_call` gets library, function and arguments."""

    def seen(library: str) -> Callable[[str, tuple[Any, ...]], None] | None:
        if on_call is None:
            return None
        return lambda name, arguments: on_call(library, name, arguments)

    kinds = {"cublaslt": FakeLt, "cufft": FakeFft, "cusolver": FakeSolver, "cudnn": FakeDnn}
    return {name: kind(cuda, seen(name)) for name, kind in kinds.items()}
