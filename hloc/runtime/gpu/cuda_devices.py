"""The CUDA devices of this machine, each opened once, and the chip that code is compiled for."""

from __future__ import annotations

from functools import cache

from hloc.codegen.gpu.nvptx.chips import CHIPS
from hloc.errors import HloError, UnsupportedError
from hloc.runtime.gpu.cuda import CudaDevice
from hloc.runtime.gpu.cuda_driver import installed_driver
from hloc.runtime.gpu.cuda_image import is_for


@cache
def first_device() -> CudaDevice:
    """Return the first GPU of this machine, opened once.

    Raises:
        UnsupportedError: there is none, or its driver or package is not installed.
    """
    return CudaDevice(installed_driver())


@cache
def first_devices(count: int) -> tuple[CudaDevice, ...]:
    """Return the first GPUs of this machine.

    Raises:
        UnsupportedError: there are fewer, or their driver or package is not installed.
    """
    first, driver = first_device(), installed_driver()
    here = int(driver.call("cuDeviceGetCount"))
    if here < count:
        raise UnsupportedError(f"{count} devices need as many GPUs, and this machine has {here}")
    return first, *(CudaDevice(driver, number) for number in range(1, count))


@cache
def native_chip() -> str:
    """Return the chip of the first GPU, as `--mcpu` takes it, "" if there is no usable GPU."""
    try:
        return nearest_chip(first_device().capability)
    except HloError:
        return ""


def nearest_chip(capability: int) -> str:
    """Return the newest chip whose code runs on a device of `capability`, "" if there is none.

    `sm_90a` for 90: such code uses all features of the chip, and runs on no other.
    """
    fitting = [c for c in CHIPS.values() if is_for(c.name, capability)]
    newest = max(fitting, key=lambda c: (c.capability, c.name), default=None)
    return newest.name if newest else ""
