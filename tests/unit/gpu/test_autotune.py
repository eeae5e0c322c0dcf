"""`--autotune`: all kernels of a product are right, the fastest is taken, and it is remembered."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hloc import evaluate
from hloc.cli import main
from hloc.codegen.gpu.emit import alternatives
from hloc.codegen.gpu.kernel import GpuFunction
from hloc.codegen.gpu.nvptx.backend import NvptxModule
from hloc.driver import parse_text
from hloc.errors import HloError
from hloc.runtime.gpu import autotune
from hloc.runtime.gpu.autotune import tuned
from hloc.runtime.gpu.cuda import CudaDevice
from hloc.runtime.gpu.executable import GpuExecutable
from tests.inputs import inputs_for
from tests.tolerance import assert_close
from tests.unit.gpu.fake_cuda import FakeCuda
from tests.unit.gpu.simulate import compiled, entry
from tests.unit.gpu.test_cuda import device_of

PRODUCT = entry(
    "f16[70,100];f16[100,90]",
    "f16[70,90] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
)


def kernels_of(module: NvptxModule) -> list[Any]:
    (request,) = module.plan.kernels
    return alternatives(request, module.kernels[0], module.chip)


def timed_by(times: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let launches take what `times` says of the function, 1 if nothing; returns what runs."""
    launched: list[str] = []

    def launch(
        device: CudaDevice, code: Any, function: GpuFunction, arguments: Sequence[int]
    ) -> None:
        launched.append(function.name)
        device.reports.append((function.name, times.get(function.name, 1.0)))

    monkeypatch.setattr(CudaDevice, "launch", launch)
    return launched


def test_all_alternatives_are_right() -> None:
    module = compiled(PRODUCT, cpu="sm_80")
    arrays = inputs_for(parse_text(PRODUCT), 0, special=False)
    (wanted,) = evaluate(PRODUCT, *arrays)
    found = kernels_of(module)
    assert len(found) == 5
    for kernel in found:
        module.kernels, module._ptx = (kernel,), None
        (result,) = GpuExecutable(module, device_of(FakeCuda()))(*arrays)
        assert_close(result, wanted)


def test_the_fastest_is_taken_and_remembered(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = compiled(PRODUCT, cpu="sm_80")
    third = kernels_of(module)[2]
    device = device_of(FakeCuda())
    launched = timed_by({third.functions[0].name: 0.5}, monkeypatch)
    assert tuned(module, device).kernels == (third,)
    assert len(launched) == 5 * (1 + autotune.ROUNDS)
    launched.clear()
    assert tuned(module, device).kernels == (third,)
    assert not launched
    (file,) = cache_folder.glob("tuning-*.json")
    for text in ("", "{}", '{"best": 7}', '{"best": "x"}', "["):
        file.write_text(text)
        assert tuned(module, device).kernels == (third,)
        assert launched, text
        launched.clear()


def test_a_kernel_that_does_not_run_is_not_taken(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = compiled(PRODUCT, cpu="sm_80")
    first, second, *_ = kernels_of(module)

    def launch(
        device: CudaDevice, code: Any, function: GpuFunction, arguments: Sequence[int]
    ) -> None:
        if function.name == first.functions[0].name:
            raise HloError("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES")
        device.reports.append((function.name, 1.0))

    monkeypatch.setattr(CudaDevice, "launch", launch)
    device = device_of(FakeCuda())
    assert tuned(module, device).kernels == (second,)
    assert not device.metrics


def test_a_module_without_choices_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    module = compiled(entry("f32[64]", "f32[64] negate(p0)"))
    launched = timed_by({}, monkeypatch)
    assert tuned(module, device_of(FakeCuda())).kernels == module.kernels
    assert not launched


@pytest.mark.parametrize("target", ["aarch64", "amdgcn", "nvptx64 --simulate"])
def test_the_option_needs_a_machine_that_runs_the_code(
    target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "product.hlo"
    file.write_text(PRODUCT)
    options = f"--target={target}".split()
    assert main([str(file), "--run", "--autotune", *options]) == 2
    assert "--autotune measures kernels: it needs" in capsys.readouterr().err
