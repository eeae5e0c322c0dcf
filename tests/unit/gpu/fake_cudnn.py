"""cuDNN's frontend on the fake driver: a graph is what it makes, done when it is executed."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np

from tests.unit.gpu.fake_library import POISON, FakeLibrary


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
            dnn.write(workspace, np.full(64, POISON, np.uint8))
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
