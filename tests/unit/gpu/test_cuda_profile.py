"""What `--profile` tells of kernels, in the interpreter and with times, and the GPU benchmark."""

from __future__ import annotations

import re

import numpy as np
import pytest

from benchmarks import gpu as benchmark
from hloc.analysis.gpu_devices import DeviceSpec, spec_of_device
from hloc.cli import main
from hloc.cli.profile_report import profile_lines
from hloc.driver import compile_module, make_options, parse_text
from hloc.dtypes import BF16, F32, S8, dtype_named
from hloc.errors import HloError, UnsupportedError
from hloc.runtime.gpu import executable as gpu_executable
from hloc.runtime.gpu.executable import GpuExecutable
from hloc.runtime.gpu.profile import ROUNDS, profile
from hloc.runtime.gpu.simulated import SimulatedDevice
from tests.inputs import inputs_for
from tests.unit.gpu.fake_cuda import FakeCuda
from tests.unit.gpu.simulate import compiled, entry
from tests.unit.gpu.test_cuda import BRANCHES, device_of

INPUTS = inputs_for(parse_text(BRANCHES), 0, special=False)


def test_times_and_rates_of_each_kernel() -> None:
    found = profile(GpuExecutable(compiled(BRANCHES), device_of(FakeCuda())), INPUTS)
    by_opcode = {kernel.opcode: kernel for kernel in found.kernels}
    transpose = by_opcode["transpose"]
    assert transpose.cost.bytes == 2 * 33 * 70 * 4
    assert transpose.seconds == 0.25e-3  # what the fake driver says of any two events
    assert transpose.share_of(DeviceSpec(1, 2 * 33 * 70 * 4 / 0.125e-3, 1e12, 1e12)) == 0.5
    assert found.spec is None
    lines = profile_lines(GpuExecutable(compiled(BRANCHES), device_of(FakeCuda())), INPUTS)
    assert re.fullmatch(r"profile on Fake GPU: \d kernels", lines[0])
    assert re.search(r"a \(transpose\) +1 +0\.25 ms +\d+% +73\.9 MB/s +0 FLOP/s", "\n".join(lines))


def test_counts_of_each_kernel_in_the_interpreter() -> None:
    device = SimulatedDevice()
    executable = GpuExecutable(compiled(entry("f32[4096]", "f32[4096] negate(p0)")), device)
    (kernel,) = profile(executable, [np.zeros(4096, np.float32)]).kernels
    report = kernel.counts
    assert report.global_sectors * 32 == report.global_bytes == kernel.cost.bytes
    assert kernel.seconds is None
    assert kernel.share_of(DeviceSpec(1, 1.0, 1.0, 1.0)) is None
    assert not device.metrics
    assert device.reports == []


def test_rounds_are_those_of_a_device() -> None:
    api = FakeCuda()
    executable = GpuExecutable(compiled(entry("f32[8]", "f32[8] sine(p0)")), device_of(api))
    profile(executable, [np.zeros(8, np.float32)])
    assert api.calls.count("cuLaunchKernel") == 1 + ROUNDS


def test_other_programs_have_no_profile() -> None:
    program = compile_module(entry("f32[8]", "f32[8] negate(p0)"), make_options(2, "cpu", {}))
    with pytest.raises(HloError, match="profiles are for GPU programs only"):
        profile(program, [np.zeros(8, np.float32)])


def test_the_command_line(
    capsys: pytest.CaptureFixture[str], tmp_path: pytest.TempPathFactory
) -> None:
    file = f"{tmp_path}/m.hlo"
    with open(file, "w", encoding="utf-8") as stream:
        stream.write(entry("f32[64]", "f32[64] negate(p0)"))
    words = [file, "--target=nvptx64", "--simulate", "--run", "--repeat=1", "--profile"]
    assert main(words) == 0
    assert re.search(r"r \(negate\) +1 +[\d,]+ +512 B +512 B", capsys.readouterr().err)
    assert main([file, "--profile"]) == 2
    assert "--profile needs --run" in capsys.readouterr().err


def test_peaks_of_devices_by_the_names_that_drivers_give() -> None:
    def rate(name: str) -> float:
        spec = spec_of_device(name)
        assert spec is not None
        return spec.bytes_per_second / 1e12

    assert rate("NVIDIA A100-SXM4-80GB") == 2.039
    assert rate("NVIDIA A100 80GB PCIe") == 1.935
    assert rate("NVIDIA H100 80GB HBM3") == 3.35
    assert rate("NVIDIA H200") == 4.8
    assert rate("NVIDIA L4") == 0.3
    assert spec_of_device("NVIDIA GeForce RTX 3090") is None
    h100 = spec_of_device("NVIDIA H100 80GB HBM3")
    assert h100 is not None
    assert h100.seconds(989e12, 3.35e12, BF16) == 1.0
    assert h100.seconds(67e12, 0, F32) == 1.0
    assert h100.seconds(494.5e12, 0, F32, "dot_tf32_tf32_f32") == 1.0
    assert h100.seconds(1979e12, 0, dtype_named("f8e4m3fn")) == h100.seconds(1979e12, 0, S8) == 1.0
    a100 = spec_of_device("NVIDIA A100-SXM4-80GB")
    assert a100 is not None
    assert a100.peak_flops(dtype_named("f8e5m2")) == a100.peak_flops(BF16)  # computed as f16


# ---------------------------------------------------------------- the benchmark


def test_the_benchmark_says_that_there_is_no_gpu(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def nothing() -> None:
        raise UnsupportedError("NVIDIA's driver is not installed")

    monkeypatch.setattr(benchmark, "first_device", nothing)
    monkeypatch.setattr("sys.argv", ["gpu.py"])
    assert benchmark.main() == 2
    assert "there is no NVIDIA GPU here to measure: NVIDIA's driver" in capsys.readouterr().err


def test_cases_of_the_benchmark_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All but the large products, with the fake driver; the rates say nothing."""
    monkeypatch.setattr(benchmark, "_ELEMENTS", 256)
    monkeypatch.setattr(benchmark, "_SIDE", 64)
    monkeypatch.setattr(benchmark, "measure", _once)
    device = device_of(FakeCuda())
    monkeypatch.setattr(gpu_executable, "first_device", lambda: device)
    for case in benchmark.cases():
        parse_text(case.text)
        if case.beside == benchmark.COPY:
            benchmark.run_case(case, None, False, 1e9)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 7
    errors = [float(line.rpartition(" ")[2]) for line in lines]
    assert max(errors) < 1e-5


def _once(calls: dict[str, object]) -> dict[str, object]:
    from benchmarks.harness import measure

    return dict(measure(calls, rounds=1))  # type: ignore[arg-type]  # callables, as in benchmark
