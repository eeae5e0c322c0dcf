"""A trial: equivalent kernels in memory, with arguments to run them on."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from hloc.codegen.cpu.kernel import Kernel, routine_names
from hloc.codegen.llvm.compile_pool import Unit
from hloc.codegen.llvm.object_cache import cached_objects
from hloc.codegen.llvm.object_file import ALLOWED_SYMBOLS
from hloc.codegen.llvm.target import Target
from hloc.codegen.plan.kernel_request import KernelRequest
from hloc.dtypes import Array
from hloc.memory.aligned_array import aligned_array, aligned_copy
from hloc.runtime.cpu_loader import load_functions
from hloc.runtime.tuning_file import random_array
from hloc.shapes import array_leaves

_BYTE = np.dtype(np.uint8)


class Trial:
    """Kernels of one request, and random arguments."""

    def __init__(
        self,
        request: KernelRequest,
        kernels: Sequence[Kernel],
        units: Sequence[Unit],
        machine: Target,
    ) -> None:
        """Compile and load the kernels.

        Args:
            request: what all of them compute.
            kernels: those to run.
            units: the code of all of them.
            machine: the machine, which is this one.
        """
        names = [kernel.name for kernel in kernels]
        symbols = frozenset(name for kernel in kernels for name in routine_names(kernel))
        made = cached_objects(units, machine, symbols.union(names))
        self._code = load_functions(made.objects, machine, names, ALLOWED_SYMBOLS)
        self._extents = [kernel.extent for kernel in kernels]
        rng, inst = np.random.default_rng(0), request.inst
        given = [random_array(rng, s) for o in inst.operands for s in array_leaves(o.shape)]
        self._inputs = [aligned_copy(array.reshape(-1).view(_BYTE)) for array in given]
        self._outputs = [
            aligned_array((leaf.size_bytes,), _BYTE) if place is None else self._inputs[place]
            for place, leaf in zip(request.aliased, array_leaves(inst.shape), strict=True)
        ]
        self._overwritten = {i: self._inputs[i].copy() for i in request.aliased if i is not None}
        scratch = max(kernel.scratch_bytes for kernel in kernels)
        self._scratch = [aligned_array((scratch,), _BYTE)] if scratch else []

    def seconds(self, number: int, calls: int) -> float:
        """Return the processor time of a run of one kernel, the mean of some calls."""
        call = self._call(number)
        started = time.thread_time()
        for _ in range(calls):
            call()
        return (time.thread_time() - started) / calls

    def results(self, number: int) -> tuple[list[bytes], float]:
        """Run one kernel once, and return its results and the processor time."""
        call = self._call(number)
        started = time.thread_time()
        call()
        seconds = time.thread_time() - started
        return [output.tobytes() for output in self._outputs], seconds

    def _call(self, number: int) -> Callable[[], object]:
        """Return a call of one kernel; arguments that it overwrites are as at first."""
        for place, array in self._overwritten.items():
            self._inputs[place][...] = array
        arrays: list[Array] = [*self._inputs, *self._outputs, *self._scratch]
        kinds = [ctypes.c_void_p] * len(arrays) + [ctypes.c_int64] * 2
        function = ctypes.CFUNCTYPE(None, *kinds)(self._code.addresses[number])
        places = [ctypes.c_void_p(array.ctypes.data) for array in arrays]
        return partial(function, *places, 0, self._extents[number])
