"""Arrays of other packages in and out without a copy, and memory that lives as long as its users.

Addresses of the fake driver are of no use to other packages, so that what only they can show is
shown with memory of the host.
"""

from __future__ import annotations

import gc
import subprocess
import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from hloc.dtypes import DTYPES
from hloc.errors import HloError
from hloc.runtime.gpu import dlpack, dlpack_export
from hloc.runtime.gpu.cuda import CudaDevice
from hloc.runtime.gpu.executable import GpuExecutable
from hloc.runtime.gpu.simulated import SimulatedDevice
from tests.unit.gpu.fake_cuda import FakeCuda
from tests.unit.gpu.simulate import compiled, entry
from tests.unit.gpu.test_cuda import device_of

TWICE = entry("f32[3,4];f32[3,4]", "f32[3,4] add(p0, p1)")


class Foreign:
    """An array of another package over memory of a device, by the CUDA Array Interface."""

    def __init__(self, device: CudaDevice, array: Any, **changes: Any) -> None:
        self.address = device.allocate(array.nbytes)
        device.write(self.address, array)
        self.__cuda_array_interface__ = {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "strides": None,
            "data": (self.address, False),
            "version": 3,
            "stream": 1,
        } | changes


class HostArray:
    """Memory of the host as DLPack."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CPU, 0

    def __dlpack__(self, **_: Any) -> Any:
        a = self.array
        strides = [stride // a.itemsize for stride in a.strides]
        return dlpack_export.export(
            a.ctypes.data, a.shape, strides, (2, 32), (dlpack.CPU, 0), self.array
        )


def test_results_are_arguments_of_the_next_call_without_a_copy() -> None:
    api = FakeCuda(seed=3)
    device = device_of(api)
    executable = GpuExecutable(compiled(TWICE), device)
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    (first,) = executable.on_device(a, Foreign(device, a))
    assert np.array_equal(np.asarray(first), 2 * a)
    copies = api.calls.count("cuMemcpyHtoDAsync")
    (second,) = executable.on_device(first, first)
    assert api.calls.count("cuMemcpyHtoDAsync") == copies
    assert np.array_equal(np.asarray(second), 4 * a)
    assert np.array_equal(np.asarray(first), 2 * a)


def test_memory_of_results_is_given_back() -> None:
    api = FakeCuda()
    device = device_of(api)
    executable = GpuExecutable(compiled(TWICE), device)
    a = np.ones((3, 4), np.float32)
    executable.on_device(a, a)
    device.synchronize()
    before = api.memory.allocated_bytes
    (result,) = executable.on_device(a, a)
    capsule = result.__dlpack__()
    del result
    gc.collect()
    device.synchronize()
    assert api.memory.allocated_bytes == before + 48  # the capsule still needs it
    del capsule
    assert "cuCtxSynchronize" not in api.calls
    dlpack_export.sweep()
    gc.collect()
    assert "cuCtxSynchronize" in api.calls  # its taker may have let it go in the midst of work
    device.synchronize()
    assert api.memory.allocated_bytes == before


def test_column_major_results_give_their_strides() -> None:
    executable = GpuExecutable(
        compiled(
            "HloModule m, entry_computation_layout={(f32[3,4]{1,0})->f32[3,4]{0,1}}\n"
            "ENTRY e {\n  p = f32[3,4]{1,0} parameter(0)\n"
            "  ROOT c = f32[3,4]{0,1} copy(p)\n}\n"
        ),
        device_of(FakeCuda()),
    )
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    (result,) = executable.on_device(a)
    assert result.__cuda_array_interface__["strides"] == (4, 12)
    assert dlpack.tensor_in(result.__dlpack__()).strides[:2] == [1, 3]
    assert np.array_equal(np.asarray(result), a)


@pytest.mark.parametrize(
    ("array", "changes", "message"),
    [
        (np.zeros((4, 3), np.float32), {}, r"must be f32\[3,4\], but the argument is float32\[4,3"),
        (np.zeros((3, 4), np.int32), {}, r"must be f32\[3,4\], but the argument is int32"),
        (np.zeros((3, 4), np.float32), {"strides": (4, 12)}, r"strides \[4, 1\].*has \[1, 3\]"),
    ],
)
def test_arrays_that_do_not_fit(array: Any, changes: dict[str, Any], message: str) -> None:
    device = device_of(FakeCuda())
    executable = GpuExecutable(compiled(TWICE), device)
    with pytest.raises(HloError, match=message):
        executable.on_device(np.zeros((3, 4), np.float32), Foreign(device, array, **changes))


def test_arrays_that_begin_between_aligned_places_are_copied() -> None:
    """Kernels read 16 bytes at once, which a part of another package's array may not allow."""
    api = FakeCuda()
    device = device_of(api)
    executable = GpuExecutable(compiled(entry("f32[64]", "f32[64] negate(p0)")), device)
    whole = np.arange(65, dtype=np.float32)
    foreign = Foreign(device, whole)
    for start, copies in ((0, 0), (1, 1)):
        part = Foreign(device, whole[:64], data=(foreign.address + 4 * start, False))
        (result,) = executable.on_device(part)
        assert np.array_equal(np.asarray(result), -whole[start : start + 64])
        assert api.calls.count("cuMemcpyDtoDAsync") == copies


def test_wrong_places_are_refused() -> None:
    class Elsewhere:
        def __dlpack_device__(self) -> tuple[int, int]:
            return dlpack.CUDA, 5

    a = np.zeros((3, 4), np.float32)
    executable = GpuExecutable(compiled(TWICE), device_of(FakeCuda()))
    with pytest.raises(HloError, match="is on CUDA device 5, not 0"):
        executable.on_device(a, Elsewhere())
    with pytest.raises(HloError, match="are not on the simulated GPU"):
        GpuExecutable(compiled(TWICE), SimulatedDevice()).on_device(a, a)


def test_types_without_a_name_there() -> None:
    executable = GpuExecutable(
        compiled(entry("bf16[8]", "bf16[8] negate(p0)")), device_of(FakeCuda())
    )
    (result,) = executable.on_device(np.ones(8, ml_dtypes.bfloat16))
    assert not hasattr(result, "__cuda_array_interface__")
    kind = dlpack.tensor_in(result.__dlpack__()).dtype
    assert (kind.code, kind.bits, kind.lanes) == (4, 16, 1)
    with pytest.raises(BufferError, match="not a copy"):
        result.__dlpack__(copy=True)


def test_types_agree_with_numpy() -> None:
    """NumPy says by its own capsules what it calls its types."""
    for dtype in DTYPES.values():
        if dtype.is_special or dtype.numpy.isbuiltin != 1:
            continue
        kind = dlpack.tensor_in(np.zeros(1, dtype.numpy).__dlpack__()).dtype
        assert dlpack.type_code(dtype) == (kind.code, kind.bits), dtype.name


def test_a_capsule_is_in_use_until_its_taker_is_done() -> None:
    a = np.arange(12, dtype=np.float32).reshape(3, 4).T
    taken = np.from_dlpack(HostArray(a))
    assert np.array_equal(taken, a)
    assert dlpack_export.sweep() == 1
    del taken
    gc.collect()
    assert dlpack_export.sweep() == 0
    unused = HostArray(a).__dlpack__()
    assert dlpack_export.sweep() == 1
    del unused
    assert dlpack_export.sweep() == 0


def test_takers_may_outlive_the_interpreter() -> None:
    """The mark is set by machine code, which is still there when Python's objects are gone."""
    text = (
        "import numpy as np, sys\n"
        "from tests.unit.gpu.test_cuda_dlpack import HostArray\n"
        "sys.kept = np.from_dlpack(HostArray(np.zeros((2, 2), np.float32)))\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
