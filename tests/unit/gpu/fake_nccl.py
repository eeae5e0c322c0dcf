"""NCCL's C functions over fake CUDA drivers, one for each GPU.

Work is put on the streams, and done as late as the drivers do anything: all members of a group at
once, when somebody waits for one of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from hloc.dtypes import Array
from hloc.runtime.communicator.nccl.simulated import SimulatedNccl
from tests.unit.gpu.fake_cuda import FakeCuda, Node

_LOCK = threading.RLock()
"""Fake drivers run work of each other, on the thread of whoever waits."""


class OneOfSeveral(FakeCuda):
    """A driver that is used by several threads."""

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if not name.startswith("cu") or not callable(found) or isinstance(found, type):
            return found

        def locked(*arguments: Any) -> Any:
            with _LOCK:
                return found(*arguments)

        return locked


class _Memory:
    """The memory of a fake driver, as the simulation of NCCL wants it."""

    def __init__(self, cuda: FakeCuda) -> None:
        self._memory = cuda.memory

    def read(self, address: int, size: int) -> Array:
        return self._memory.read(address, size)

    def write(self, address: int, data: Array) -> None:
        self._memory.write(address, data)


class FakeNccl:
    """What `NcclLibrary` takes as its library.

    Attributes:
        calls: names of the functions called so far.
        refuse: name of a function that fails.
    """

    def __init__(self, drivers: Sequence[FakeCuda]) -> None:
        self.calls: list[str] = []
        self.refuse = ""
        self._drivers = drivers
        self._nccl = SimulatedNccl([_Memory(cuda) for cuda in drivers])  # type: ignore[misc]
        self._members: dict[int, tuple[Any, int]] = {}  # by handle: communicator, device
        self._depth = 0
        self._has_failed = False
        self._asked: list[tuple[int, int, Callable[[Any], None]]] = []

    @property
    def living(self) -> list[int]:
        """Communicators that were made and not given back."""
        return sorted(self._members)

    def ncclGetErrorString(self, status: Any) -> bytes:
        assert status.value == 5
        return b"invalid usage"

    def ncclCommInitAll(self, handles: Any, count: Any, devices: Any) -> int:
        if self._is_refused("ncclCommInitAll"):
            return 5
        comms = self._nccl.communicators(list(devices))
        assert count.value == len(handles) == len(devices)
        for rank, (comm, device) in enumerate(zip(comms, devices, strict=True)):
            handles[rank] = 100 + len(self._members)
            self._members[handles[rank]] = comm, device
        return 0

    def ncclCommDestroy(self, handle: Any) -> int:
        del self._members[handle.value]
        return 0

    def ncclGroupStart(self) -> int:
        self._depth += 1
        return 0

    def ncclGroupEnd(self) -> int:
        self._depth -= 1
        assert self._depth == 0
        if self._has_failed:
            self._has_failed, self._asked = False, []
            return 5
        with _LOCK:
            self._put_on_streams(self._asked)
        self._asked = []
        return 0

    def _put_on_streams(self, asked: list[tuple[int, int, Callable[[Any], None]]]) -> None:
        nodes: list[tuple[FakeCuda, Node]] = []
        is_done = False

        def work() -> None:
            nonlocal is_done
            if is_done:
                return
            is_done = True
            for cuda, node in nodes:
                for before in node.before:
                    cuda._finish(before)
            for handle, _, ask in asked:
                ask(self._members[handle][0])
            self._nccl.group_end()

        streams = dict.fromkeys((self._members[handle][1], stream) for handle, stream, _ in asked)
        for device, stream in streams:
            cuda = self._drivers[device]
            nodes.append((cuda, cuda._add(stream, work)))

    def _is_refused(self, name: str) -> bool:
        self.calls.append(name)
        self._has_failed |= name == self.refuse
        return name == self.refuse

    def _ask(self, name: str, method: str, *arguments: Any) -> int:
        *numbers, handle, stream = (argument.value or 0 for argument in arguments)
        if self._is_refused(name):
            return 5
        assert self._depth == 1, "several GPUs of one thread need a group"
        function = getattr(self._nccl, method)
        self._asked.append((handle, stream, lambda comm: function(comm, *numbers)))
        return 0

    def ncclSend(self, array: Any, count: Any, dtype: Any, peer: Any, *rest: Any) -> int:
        assert dtype.value == 0
        return self._ask("ncclSend", "send", array, count, peer, *rest)

    def ncclRecv(self, array: Any, count: Any, dtype: Any, peer: Any, *rest: Any) -> int:
        assert dtype.value == 0
        return self._ask("ncclRecv", "recv", array, count, peer, *rest)

    def ncclAllGather(self, source: Any, target: Any, count: Any, dtype: Any, *rest: Any) -> int:
        assert dtype.value == 0
        return self._ask("ncclAllGather", "all_gather", source, target, count, *rest)

    def ncclBroadcast(self, s: Any, t: Any, count: Any, dtype: Any, root: Any, *rest: Any) -> int:
        assert dtype.value == root.value == 0
        return self._ask("ncclBroadcast", "broadcast", s, t, count, *rest)

    def ncclAllReduce(self, *arguments: Any) -> int:
        return self._ask("ncclAllReduce", "all_reduce", *arguments)

    def ncclReduceScatter(self, *arguments: Any) -> int:
        return self._ask("ncclReduceScatter", "reduce_scatter", *arguments)
