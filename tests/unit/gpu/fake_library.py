"""What stand-ins of NVIDIA's libraries share: handles, streams, and the fake driver's memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.unit.gpu.fake_cuda import FakeCuda

POISON = 0x7F
"""Bytes that work areas are filled with."""


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
