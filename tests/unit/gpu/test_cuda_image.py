"""What is loaded onto a device, by the age of its driver; and the chip that code is made for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hloc.codegen.gpu.nvptx import cubin
from hloc.codegen.gpu.nvptx.chips import CHIPS, NEWEST_PTX
from hloc.errors import HloError, UnsupportedError
from hloc.options import CompileOptions
from hloc.runtime import loading
from hloc.runtime.gpu import cuda_devices, cuda_driver, cuda_image, executable
from hloc.runtime.gpu.cuda_driver import CudaDriver, installed_driver
from hloc.runtime.gpu.cuda_image import image_for, newest_ptx
from tests.unit.gpu.fake_cuda import FakeCuda, Refused
from tests.unit.gpu.simulate import compiled, entry
from tests.unit.gpu.test_cuda import device_of

SMALL = entry("f32[8]", "f32[8] sine(p0)")


@pytest.fixture(scope="module")
def ptx() -> str:
    """Version 7.0, for sm_80."""
    return compiled(SMALL).ptx


def test_versions_of_ptx_that_drivers_take() -> None:
    assert [newest_ptx(v) for v in (10020, 11000, 11080, 12000, 12060, 12090, 13000)] == [
        0, 70, 78, 80, 85, 88, 90,
    ]  # fmt: skip
    assert newest_ptx(14000) >= NEWEST_PTX >= max(chip.ptx for chip in CHIPS.values())


def test_ptx_goes_as_it_is_to_a_driver_that_knows_its_version(ptx: str) -> None:
    assert image_for(ptx, 90, 11000, "GPU") == ptx.encode() + b"\0"


@pytest.mark.skipif(not cubin.can_assemble(), reason="neither nvJitLink nor ptxas is installed")
def test_an_old_driver_gets_machine_code(ptx: str) -> None:
    newer = ptx.replace(".version 7.0", ".version 7.8")
    for capability in (80, 86):
        assert image_for(newer, capability, 11040, "GPU")[:4] == b"\x7fELF"


def test_an_old_driver_without_an_assembler_is_reported(
    monkeypatch: pytest.MonkeyPatch, ptx: str
) -> None:
    monkeypatch.setattr(cuda_image, "can_assemble", lambda: False)
    newer = ptx.replace(".version 7.0", ".version 8.6")
    with pytest.raises(UnsupportedError, match=r"of GPU takes PTX 8\.0 and older.*is PTX 8\.6"):
        image_for(newer, 90, 12000, "GPU")


def test_the_log_of_the_driver_is_in_the_error() -> None:
    class Refusing(FakeCuda):
        def _cuLibraryLoadData(self, image: bytes, options: Any, values: Any, *rest: Any) -> Any:
            values[0][:14] = b"ptxas: line 12"
            raise Refused("CUDA_ERROR_INVALID_PTX")

    with pytest.raises(HloError, match="cuLibraryLoadData: CUDA_ERROR_INVALID_PTX") as fault:
        device_of(Refusing()).load(compiled(SMALL))
    assert fault.value.diagnostics[0].notes == ("ptxas: line 12",)


# ---------------------------------------------------------------- the device of this machine


def test_code_is_made_for_the_device_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    def cpu(name: str, *, simulate: bool = False) -> str:
        options = CompileOptions(target="nvptx64", cpu=name, simulate=simulate)
        return loading.with_native_processor(options).cpu

    monkeypatch.setattr(cuda_devices, "native_chip", lambda: "sm_90a")
    assert [cpu(""), cpu("native"), cpu("sm_80")] == ["sm_90a", "sm_90a", "sm_80"]
    assert [cpu("", simulate=True), cpu("native", simulate=True)] == ["", "sm_90a"]
    monkeypatch.setattr(cuda_devices, "native_chip", lambda: "")
    assert cpu("") == ""
    with pytest.raises(UnsupportedError, match="no device for target nvptx64"):
        cpu("native")
    other = CompileOptions(cpu="native")
    assert loading.with_native_processor(other) is other


def test_modules_are_loaded_onto_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    device = device_of(FakeCuda())
    monkeypatch.setattr(executable, "first_device", lambda: device)
    program = loading.load_compiled(compiled(SMALL))
    (found,) = program(np.ones(8, np.float32))
    assert np.allclose(found, np.sin(1.0))


def test_a_missing_driver_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    class Missing:
        def cuInit(self, flags: int) -> None:
            raise RuntimeError("libcuda.so.1 is not there")

    monkeypatch.setattr(cuda_driver, "import_module", lambda _: Missing())
    installed_driver.cache_clear()
    with pytest.raises(UnsupportedError, match="NVIDIA's driver is not installed"):
        installed_driver()
    api = FakeCuda()
    api.fail_at = 0
    monkeypatch.setattr(cuda_driver, "import_module", lambda _: api)
    with pytest.raises(UnsupportedError, match="cuInit: CUDA_ERROR_UNKNOWN"):
        installed_driver()
    assert isinstance(installed_driver(), CudaDriver)
    installed_driver.cache_clear()


def test_a_missing_package_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(cuda_driver, "import_module", missing)
    installed_driver.cache_clear()
    with pytest.raises(UnsupportedError, match="cuda-bindings is not installed") as fault:
        installed_driver()
    assert "pip install cuda-bindings" in str(fault.value.diagnostics[0].notes)
