"""MPI for machine code: addresses of its functions, and mpi4py's handles as words.

Communicators are created before the first run, in the order in which the program first names their
groups, by their members only.
"""

from __future__ import annotations

import ctypes
import os
from functools import cached_property
from typing import Any

from hloc.errors import HloError
from hloc.runtime.communicator.mpi.calls import Handle
from hloc.runtime.communicator.mpi.transport import Processes

_MISSING = (
    "a run over MPI needs mpi4py and an MPI library: pip install 'hloc[mpi]', or mpi4py where "
    "the cluster brings its own MPI"
)


class Library:
    """The MPI library of this process, initialised for calls from all threads.

    Attributes:
        mpi: the module `mpi4py.MPI`.
        world, check, transfers, control: communicators of all processes: for messages between
            devices, for checks before them, for `send` and `recv`, and for coordination of the
            processes.
    """

    def __init__(self) -> None:
        """Initialise MPI, unless it is initialised.

        Raises:
            HloError: mpi4py or its MPI library is missing.
        """
        try:
            from mpi4py import MPI
        except (ImportError, RuntimeError) as error:
            raise HloError(f"{_MISSING} ({str(error).splitlines()[0]})") from error
        self.mpi: Any = MPI
        self.world = MPI.COMM_WORLD.Dup()
        self.check = self.world.Dup()
        self.transfers = self.world.Dup()
        self.control = self.world.Dup()
        self._values: dict[Handle, Any] = {}

    @property
    def processes(self) -> int:
        """The number of processes of the job."""
        return int(self.world.size)

    @property
    def rank(self) -> int:
        """The number of this process."""
        return int(self.world.rank)

    @cached_property
    def neighbours(self) -> int:
        """The number of these on this machine; a collective call of all processes."""
        local = self.world.Split_type(self.mpi.COMM_TYPE_SHARED)
        count = int(local.size)
        local.Free()
        return count

    @property
    def request_bytes(self) -> int:
        return self._size_of(self.mpi.Request)

    @property
    def status_bytes(self) -> int:
        return self._size_of(self.mpi.Status)

    def _size_of(self, kind: Any) -> int:
        return int(self.mpi._sizeof(kind))

    @cached_property
    def _shared_object(self) -> ctypes.CDLL:
        return ctypes.CDLL(self.mpi.__file__)  # also finds symbols of the libraries it links to

    def function(self, name: str) -> int:
        """Return the address of a function of MPI."""
        try:
            function = getattr(self._shared_object, name)
        except AttributeError:
            function = getattr(ctypes.CDLL(None), name)
        return ctypes.cast(function, ctypes.c_void_p).value or 0

    def make_communicator(self, devices: tuple[int, ...], processes: Processes, tag: int) -> None:
        """Create the communicator of a group, unless it exists; only its members call this.

        Args:
            devices: the group by rank, each in a process of its own.
            processes: the devices of each process.
            tag: a number that is unique among communicators that are created concurrently.
        """
        handle = Handle("communicator", devices)
        if handle in self._values:
            return
        group = self.world.group.Incl([processes.process(device) for device in devices])
        limit = int(self.world.Get_attr(self.mpi.TAG_UB)) + 1
        self._values[handle] = self.world.Create_group(group, tag % limit)
        group.Free()

    def value(self, handle: Handle) -> int:
        """Return `handle` as an argument of MPI's functions."""
        match handle:
            case Handle("function", str() as name):
                return self.function(name)
            case Handle("request bytes"):
                return self.request_bytes
        mpi_handle = self._values.get(handle)
        if mpi_handle is None:
            mpi_handle = self._values[handle] = self._make(handle)
        size = self._size_of(mpi_handle)
        raw = ctypes.string_at(self.mpi._addressof(mpi_handle), size)
        return int.from_bytes(raw, "little", signed=True)

    def _make(self, handle: Handle) -> Any:
        mpi = self.mpi
        match handle:
            case Handle("world" | "check" | "transfers" as kind):
                return getattr(self, kind)
            case Handle("type" | "op", str() as name):
                return getattr(mpi, name)
            case Handle("strided", tuple() as key):
                blocks, size, stride, extent = map(int, key)
                vector = mpi.BYTE.Create_hvector(blocks, size, stride)
                return vector.Create_resized(0, extent).Commit()
        raise AssertionError(f"no handle {handle}")

    def error_text(self, status: int) -> str:
        """Return MPI's text for a status."""
        return str(self.mpi.Get_error_string(status))

    def abort(self, code: int = 1) -> None:
        """End all processes of the job."""
        self.mpi.COMM_WORLD.Abort(code)
        os._exit(code)  # MPICH comes back, and ends this process some time later
