"""A CUDA driver made of the PTX interpreter, as nasty as the real one may be.

Work is kept back until somebody waits for it, and then runs in any order that streams, events and
graphs allow: the random one of a seed. Copies read and write the host's memory that late, too. A
call can be made to fail, and every call can be shown to somebody.
"""

from __future__ import annotations

import ctypes
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from hloc.ptx import Memory, PtxFault, PtxModule, launch, parse_ptx
from hloc.ptx.tensor_maps import TensorMap
from tests.unit.gpu.fake_cuda_types import StandIns

_NO_CONTEXT_NEEDED = {
    "cuInit", "cuDriverGetVersion", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName",
    "cuDeviceGetAttribute", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent", "cuGetErrorName",
    "cuGetErrorString", "cuDeviceGetDefaultMemPool", "cuMemPoolSetAttribute", "cuLibraryUnload",
}  # fmt: skip
_FREE_SHARED = 48 << 10
_ELEMENT_BYTES = {"UINT8": 1, "FLOAT16": 2, "BFLOAT16": 2, "FLOAT32": 4, "TFLOAT32": 4}
_UNIT_BYTES = 16  # LLVM may read the whole of an aligned unit, which the driver allocates anyway


def _bytes_of(tensor_map: Any) -> bytes:
    return np.array([int(word) for word in tensor_map.opaque], np.uint64).tobytes()


class Refused(Exception):
    """The driver's own error, by its name."""


@dataclass(eq=False)
class Node:
    """One piece of work, done after all of `before`."""

    work: Callable[[], None] | None
    before: tuple[Node, ...]
    done: bool = False


@dataclass
class _Capture:
    origin: int
    nodes: list[Node] = field(default_factory=list)
    tails: dict[int, Node] = field(default_factory=dict)


class FakeCuda:
    """What `CudaDriver` takes as its `api`.

    Attributes:
        calls: names of the functions called so far.
        fail_at: number of the call that fails, counted from 0; None for none.
        on_call: sees every call, its name and arguments.
    """

    def __init__(
        self,
        types: Any = None,
        *,
        seed: int = 0,
        capability: int = 80,
        version: int = 13000,
        on_call: Callable[[str, tuple[Any, ...]], None] | None = None,
    ) -> None:
        self.types = StandIns() if types is None else types
        self.memory = Memory(limit_bytes=1 << 30)
        self.capability, self.version = capability, version
        self.calls: list[str] = []
        self.fail_at: int | None = None
        self.on_call = on_call
        self._random = random.Random(seed)
        self._pending: list[Node] = []
        self._tails: dict[int, Node] = {}
        self._captures: dict[int, _Capture] = {}
        self._events: dict[int, tuple[Node | None, _Capture | None]] = {}
        self._things: dict[int, Any] = {}
        self._shared: dict[int, int] = {}
        self._current = threading.local()
        self._next = 1000

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu") or name.startswith("cuuint"):
            return getattr(self.types, name)
        function = getattr(type(self), f"_{name}")

        def call(*arguments: Any) -> tuple[Any, ...]:
            number = len(self.calls)
            self.calls.append(name)
            if self.on_call:
                self.on_call(name, arguments)
            if number == self.fail_at:
                return self._error("CUDA_ERROR_UNKNOWN")
            if name not in _NO_CONTEXT_NEEDED and not hasattr(self._current, "context"):
                return self._error("CUDA_ERROR_INVALID_CONTEXT")
            try:
                found: tuple[Any, ...] | None = function(self, *arguments)
            except Refused as fault:
                return self._error(str(fault))
            return (self.types.CUresult.CUDA_SUCCESS, *(found or ()))

        if not name.startswith("cuGetError"):
            return call
        return lambda *arguments: (self.types.CUresult.CUDA_SUCCESS, *function(self, *arguments))

    def _error(self, name: str) -> tuple[Any, ...]:
        return (getattr(self.types.CUresult, name), None)

    def _handle(self, kind: str, thing: Any) -> tuple[Any]:
        self._next += 1
        self._things[self._next] = thing
        return (getattr(self.types, kind)(self._next),)

    @property
    def living(self) -> list[int]:
        """Handles of what was made and not given back: graphs, graphs that run, libraries."""
        return sorted(self._things)

    # ---- work

    def _add(self, stream: Any, work: Callable[[], None] | None, *before: Node) -> Node:
        """Put work behind what is on a stream, or into the graph that is being captured."""
        number = int(stream)
        capture = self._captures.get(number)
        tails = self._tails if capture is None else capture.tails
        tail = (tails[number],) if number in tails else ()
        node = tails[number] = Node(work, (*tail, *before))
        (self._pending if capture is None else capture.nodes).append(node)
        return node

    def _finish(self, target: Node | None) -> None:
        """Run work, whatever may come next, until `target` is done."""
        while target is not None and not target.done:
            ready = [n for n in self._pending if all(b.done for b in n.before)]
            node = self._random.choice(ready)
            self._pending.remove(node)
            if node.work is not None:
                node.work()
            node.done = True

    # ---- device

    def _cuInit(self, flags: int) -> None:
        pass

    def _cuDriverGetVersion(self) -> tuple[int]:
        return (self.version,)

    def _cuDeviceGetCount(self) -> tuple[int]:
        return (1,)

    def _cuDeviceGet(self, number: int) -> tuple[Any]:
        return (self.types.CUdevice(number),)

    def _cuDeviceGetName(self, length: int, device: Any) -> tuple[bytes]:
        return (b"Fake GPU".ljust(length, b"\0"),)

    def _cuDeviceGetAttribute(self, which: Any, device: Any) -> tuple[int]:
        name = getattr(which, "name", which)
        major, minor = divmod(self.capability, 10)
        return ({"MAJOR": major, "MINOR": minor}.get(name.rpartition("_")[2], 1000),)

    def _cuDevicePrimaryCtxRetain(self, device: Any) -> tuple[Any]:
        return (self.types.CUcontext(7),)

    def _cuCtxSetCurrent(self, context: Any) -> None:
        assert int(context) == 7
        self._current.context = context

    def _cuCtxSynchronize(self) -> None:
        while self._pending:
            self._finish(self._pending[0])

    def _cuDeviceGetDefaultMemPool(self, device: Any) -> tuple[Any]:
        return (self.types.CUmemoryPool(8),)

    def _cuMemPoolSetAttribute(self, pool: Any, which: Any, value: Any) -> None:
        pass

    def _cuGetErrorName(self, status: Any) -> tuple[bytes]:
        return (getattr(status, "name", status).encode(),)

    def _cuGetErrorString(self, status: Any) -> tuple[bytes]:
        return (b"text of the error",)

    # ---- code

    def _cuLibraryLoadData(
        self, image: bytes, options: Any, values: Any, count: int, *rest: Any
    ) -> tuple[Any, ...]:
        assert len(options) == len(values) == count
        assert image.endswith(b"\0"), "PTX ends with a zero byte"
        return self._handle("CUlibrary", _parsed(image[:-1].decode()))

    def _cuLibraryUnload(self, library: Any) -> None:
        del self._things[int(library)]

    def _cuLibraryGetKernel(self, library: Any, name: bytes) -> tuple[Any]:
        module: PtxModule = self._things[int(library)]
        assert name.decode() in module.kernels
        found = self._handle("CUkernel", None)
        del self._things[int(found[0])]  # goes with its library
        self._shared[int(found[0])] = _FREE_SHARED
        self._kernels[int(found[0])] = module, name.decode()
        return found

    @property
    def _kernels(self) -> dict[int, tuple[PtxModule, str]]:
        known: dict[int, tuple[PtxModule, str]] = self.__dict__.setdefault("_known_kernels", {})
        return known

    def _cuKernelSetAttribute(self, which: Any, value: int, kernel: Any, device: Any) -> None:
        self._shared[int(kernel)] = value

    def _cuLaunchKernel(self, function: Any, *rest: Any) -> None:
        *extents, shared, stream, (values, types), _extra = rest
        assert len(extents) == 6
        maps = [isinstance(value, self.types.CUtensorMap) for value in values]
        assert list(types) == [None if is_map else ctypes.c_void_p for is_map in maps]
        values = [_bytes_of(v) if is_map else v for v, is_map in zip(values, maps, strict=True)]
        assert shared <= self._shared[int(function)], "more shared memory than was asked for"
        module, name = self._kernels[int(function)]

        def work() -> None:
            launch(
                module,
                name,
                grid=tuple(extents[:3]),
                block=tuple(extents[3:]),
                arguments=values,
                memory=self.memory,
                shared_bytes=shared,
            )

        self._add(stream, work)

    def _cuTensorMapEncodeTiled(
        self,
        kind: Any,
        rank: int,
        address: int,
        dims: Any,
        strides: Any,
        box: Any,
        steps: Any,
        *how: Any,
    ) -> tuple[Any]:
        assert [int(step) for step in steps] == [1] * rank
        names = [getattr(value, "name", value) for value in (kind, *how)]
        element = names[0].removeprefix("CU_TENSOR_MAP_DATA_TYPE_")
        assert [name.rpartition("_")[2] for name in names[1:]] == ["NONE", "128B", "256B", "NONE"]
        try:
            sizes = [tuple(map(int, numbers)) for numbers in (dims, strides, box)]
            size, to_tf32 = _ELEMENT_BYTES[element], element == "TFLOAT32"
            tensor = TensorMap(address, size, sizes[0], sizes[1], sizes[2], 128, to_tf32)
        except PtxFault:
            raise Refused("CUDA_ERROR_INVALID_VALUE") from None
        found = self.types.CUtensorMap()
        words = np.frombuffer(tensor.encoded(), np.uint64).tolist()
        found.opaque = [self.types.cuuint64_t(word) for word in words]
        return (found,)

    # ---- memory

    def _cuMemAllocAsync(self, size: int, stream: Any) -> tuple[Any]:
        assert size > 0, "the driver allocates no empty memory"
        whole = -(-size // _UNIT_BYTES) * _UNIT_BYTES
        address = self.memory.allocate(whole)
        self.memory.write(address + size, bytes(whole - size))
        return (self.types.CUdeviceptr(address),)

    def _cuMemFreeAsync(self, address: Any, stream: Any) -> None:
        self._add(stream, lambda: self.memory.free(int(address)))

    def _cuMemcpyHtoDAsync(self, target: Any, source: Any, size: int, stream: Any) -> None:
        self._add(stream, lambda: self.memory.write(int(target), ctypes.string_at(source, size)))

    def _cuMemcpyDtoHAsync(self, target: Any, source: Any, size: int, stream: Any) -> None:
        def work() -> None:
            ctypes.memmove(target, self.memory.read(int(source), size).tobytes(), size)

        self._add(stream, work)

    def _cuMemcpyDtoDAsync(self, target: Any, source: Any, size: int, stream: Any) -> None:
        self._add(stream, lambda: self.memory.copy(int(target), int(source), size))

    # ---- streams and events

    def _cuStreamCreate(self, flags: Any) -> tuple[Any]:
        self._next += 1
        return (self.types.CUstream(self._next),)

    def _cuStreamSynchronize(self, stream: Any) -> None:
        assert int(stream) not in self._captures, "nobody waits while a stream is captured"
        self._finish(self._tails.get(int(stream)))

    def _cuStreamWaitEvent(self, stream: Any, event: Any, flags: int) -> None:
        node, capture = self._events[int(event)]
        if capture is not None:
            self._captures[int(stream)] = capture
        if node is not None:
            self._add(stream, None, node)

    def _cuEventCreate(self, flags: Any) -> tuple[Any]:
        self._next += 1
        return (self.types.CUevent(self._next),)

    def _cuEventDestroy(self, event: Any) -> None:
        del self._events[int(event)]

    def _cuEventRecord(self, event: Any, stream: Any) -> None:
        capture = self._captures.get(int(stream))
        tails = self._tails if capture is None else capture.tails
        self._events[int(event)] = tails.get(int(stream)), capture

    def _cuEventElapsedTime(self, begin: Any, end: Any) -> tuple[float]:
        last = self._events[int(end)][0]
        assert last is not None
        assert last.done
        return (0.25,)

    # ---- graphs

    def _cuStreamBeginCapture(self, stream: Any, mode: Any) -> None:
        assert int(stream) not in self._captures
        assert self._tails.get(int(stream)) is None, "streams that are recorded do nothing else"
        capture = self._captures[int(stream)] = _Capture(int(stream))
        self._add(stream, None)
        assert capture.nodes

    def _cuStreamEndCapture(self, stream: Any) -> tuple[Any, ...]:
        capture = self._captures[int(stream)]
        assert capture.origin == int(stream)
        self._captures = {s: c for s, c in self._captures.items() if c is not capture}
        joined = set(_with_all_before(capture.tails[int(stream)]))
        if not joined.issuperset(capture.tails.values()):
            raise Refused("CUDA_ERROR_STREAM_CAPTURE_UNJOINED")
        return self._handle("CUgraph", capture.nodes)

    def _cuGraphInstantiate(self, graph: Any, flags: int) -> tuple[Any]:
        return self._handle("CUgraphExec", self._things[int(graph)])

    def _cuGraphDestroy(self, graph: Any) -> None:
        del self._things[int(graph)]

    def _cuGraphExecDestroy(self, graph: Any) -> None:
        del self._things[int(graph)]

    def _cuGraphLaunch(self, graph: Any, stream: Any) -> None:
        start = self._add(stream, None)
        copies: dict[Node, Node] = {}
        for node in self._things[int(graph)]:
            before = tuple(copies[b] for b in node.before) or (start,)
            copies[node] = Node(node.work, before)
            self._pending.append(copies[node])
        self._add(stream, None, *copies.values())


@lru_cache(maxsize=8)
def _parsed(ptx: str) -> PtxModule:
    return parse_ptx(ptx)


def _with_all_before(node: Node) -> Iterator[Node]:
    seen, stack = {node}, [node]
    while stack:
        found = stack.pop()
        yield found
        new = [b for b in found.before if b not in seen]
        seen.update(new)
        stack += new
