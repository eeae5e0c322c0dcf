"""Calls of the driver have the arguments that the package takes.

`cuda-bindings` converts arguments before it looks for the driver's library: where there is no
driver, a call with right arguments fails for that reason, and one with wrong ones is a TypeError.
"""

from __future__ import annotations

import gc
from dataclasses import replace
from typing import Any

import pytest

from hloc.codegen.gpu.tensor_map import TensorMapArgument
from hloc.driver import parse_text
from hloc.dtypes import F16
from hloc.errors import UnsupportedError
from hloc.runtime.gpu.cuda import CudaDevice
from hloc.runtime.gpu.cuda_driver import installed_driver
from tests.inputs import inputs_for
from tests.unit.gpu.fake_cuda import FakeCuda
from tests.unit.gpu.test_cuda import BRANCHES, check

real: Any = pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")


def _has_driver() -> bool:
    try:
        installed_driver()
    except UnsupportedError:
        return False
    return True


@pytest.mark.skipif(_has_driver(), reason="there is a driver, which these calls would reach")
def test_every_call_has_arguments_that_the_package_takes() -> None:
    seen = set()

    def mirror(name: str, arguments: tuple[Any, ...]) -> None:
        seen.add(name)
        with pytest.raises(RuntimeError, match="library"):
            getattr(real, name)(*arguments)

    api = FakeCuda(real, on_call=mirror)
    executable = check(BRANCHES, api, calls=2)
    device, module = executable.device, executable.compiled
    assert isinstance(device, CudaDevice)
    device.metrics = True
    executable(*inputs_for(parse_text(BRANCHES), 0, special=False))
    first, second = device.allocate(64), device.allocate(64)
    device.copy(first, second, 64)
    device.wait_for(1)
    code = device.load(module)
    kernel = next(k for k in module.kernels if k.functions)
    device._function(code, replace(kernel.functions[0], dynamic_shared_bytes=64 << 10))
    device._tensor_map(TensorMapArgument(0, F16, (64, 128), (128,), (64, 64), 128), first)
    device.unload(code)
    device.free_shared(first)
    del executable
    gc.collect()
    called = {name for name in dir(FakeCuda) if name.startswith("_cu") and "Error" not in name}
    assert {f"_{name}" for name in seen} == called


def test_a_wrong_argument_is_a_type_error() -> None:
    """What the test above relies on."""
    with pytest.raises(TypeError):
        real.cuMemcpyHtoDAsync("address", 1, 2, real.CUstream(1))
