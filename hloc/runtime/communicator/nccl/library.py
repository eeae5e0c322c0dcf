"""NVIDIA's NCCL library, called through its C functions, which have been stable since NCCL 2.7.

The library comes with the packages `nvidia-nccl-cu12` and `nvidia-nccl-cu13`, or from the system.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hloc.errors import UnsupportedError
from hloc.lazy_dataclass import dataclass
from hloc.runtime.gpu.cuda_driver import CudaError

_NAME = "libnccl.so.2"
_BYTES = 0  # ncclInt8: for data that is only moved
_HOW_TO_GET = "`pip install 'hloc[nccl]'`, which is for CUDA 13; nvidia-nccl-cu12 for CUDA 12"


@cache
def installed_library() -> Any:
    """Return NCCL, loaded.

    Raises:
        UnsupportedError: it is not installed; the notes say how to install it.
    """
    for path in (*_packaged(), _NAME):
        try:
            library = ctypes.CDLL(path)
        except OSError:
            continue
        library.ncclGetErrorString.restype = ctypes.c_char_p
        return library
    raise UnsupportedError(
        "several GPUs exchange data through NCCL, which is not installed", notes=(_HOW_TO_GET,)
    )


def _packaged() -> list[str]:
    """Return the paths of the library in packages."""
    try:
        spec = find_spec("nvidia.nccl")
    except ModuleNotFoundError:
        return []
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    return [str(Path(place, "lib", _NAME)) for place in places]


@dataclass(frozen=True, slots=True)
class Member:
    """The communicator of one member, and the stream of its device."""

    handle: int
    stream: int


class NcclLibrary:
    """NCCL for the devices of a run.

    Args:
        library: `installed_library()`, or another object with C functions as attributes.
        numbers: CUDA's number of each device.
        streams: the stream of each device.
    """

    def __init__(self, library: Any, numbers: Sequence[int], streams: Sequence[int]) -> None:
        self._library, self._numbers, self._streams = library, numbers, streams
        self._handles: list[int] = []

    def communicators(self, group: Sequence[int]) -> list[Member]:
        """Return new communicators of the members of a group, by rank."""
        handles = (ctypes.c_void_p * len(group))()
        devices = (ctypes.c_int * len(group))(*(self._numbers[device] for device in group))
        self._call("ncclCommInitAll", handles, ctypes.c_int(len(group)), devices)
        members = [
            Member(int(handle or 0), self._streams[device])
            for handle, device in zip(handles, group, strict=True)
        ]
        self._handles += [member.handle for member in members]
        return members

    def group_start(self) -> None:
        """Begin to collect work."""
        self._call("ncclGroupStart")

    def group_end(self) -> None:
        """Enqueue the collected work."""
        self._call("ncclGroupEnd")

    def send(self, comm: Member, source: int, size: int, peer: int) -> None:
        """Send to rank `peer`."""
        self._ask("ncclSend", comm, (source,), size, _BYTES, peer)

    def recv(self, comm: Member, target: int, size: int, peer: int) -> None:
        """Receive from rank `peer`."""
        self._ask("ncclRecv", comm, (target,), size, _BYTES, peer)

    def all_gather(self, comm: Member, source: int, target: int, size: int) -> None:
        """Send `size` bytes to all; receive those of rank k as piece k."""
        self._ask("ncclAllGather", comm, (source, target), size, _BYTES)

    def broadcast(self, comm: Member, source: int, target: int, size: int) -> None:
        """Receive the data at `source` of rank 0."""
        self._ask("ncclBroadcast", comm, (source, target), size, _BYTES, 0)

    def all_reduce(
        self, comm: Member, source: int, target: int, count: int, dtype: int, operation: int
    ) -> None:
        """Reduce `count` elements in any order."""
        self._ask("ncclAllReduce", comm, (source, target), count, dtype, operation)

    def reduce_scatter(
        self, comm: Member, source: int, target: int, count: int, dtype: int, operation: int
    ) -> None:
        """Reduce arrays of `count` elements per member in any order; keep the own piece."""
        self._ask("ncclReduceScatter", comm, (source, target), count, dtype, operation)

    def close(self) -> None:
        """Free all communicators. Never raises: it also runs when the interpreter ends."""
        while self._handles:
            self._library.ncclCommDestroy(ctypes.c_void_p(self._handles.pop()))

    def _ask(
        self, function: str, comm: Member, arrays: Sequence[int], count: int, *numbers: int
    ) -> None:
        """Call a function: arrays, their size, type and more numbers, communicator, stream."""
        self._call(
            function,
            *map(ctypes.c_void_p, arrays),
            ctypes.c_size_t(count),
            *map(ctypes.c_int, numbers),
            ctypes.c_void_p(comm.handle),
            ctypes.c_void_p(comm.stream),
        )

    def _call(self, function: str, *arguments: Any) -> None:
        status = getattr(self._library, function)(*arguments)
        if status:
            words = self._library.ncclGetErrorString(ctypes.c_int(status))
            raise CudaError(f"{function}: {words.decode(errors='replace')}", str(status))
