"""Modules on a CUDA device whose driver is the interpreter: launches, graphs, streams, memory.

The driver does work as late and in as strange an order as it may (`fake_cuda`), so that a missing
wait shows as a wrong result.
"""

from __future__ import annotations

import gc
import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hloc import evaluate
from hloc.driver import parse_text
from hloc.errors import HloError, UnsupportedError
from hloc.runtime.gpu.cuda import CudaDevice
from hloc.runtime.gpu.cuda_devices import nearest_chip
from hloc.runtime.gpu.cuda_driver import CudaDriver
from hloc.runtime.gpu.executable import GpuExecutable
from hloc.runtime.gpu.measuring import reports_of
from tests.inputs import inputs_for
from tests.tolerance import assert_close
from tests.unit.gpu.fake_cuda import FakeCuda
from tests.unit.gpu.simulate import compiled, entry
from tests.waiting import all_at_once

BRANCHES = """HloModule branches
add {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT r = f32[] add(x, y)
}
ENTRY e {
  p = f32[33,70] parameter(0)
  zero = f32[] constant(0)
  a = f32[70,33] transpose(p), dimensions={1,0}
  b = f32[33] reduce(p, zero), dimensions={1}, to_apply=add
  c = f32[70] reduce(p, zero), dimensions={0}, to_apply=add
  d = f32[33,33] dot(p, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  bb = f32[33,33] broadcast(b), dimensions={0}
  m = f32[33,33] multiply(d, bb)
  s = f32[33] reduce(m, zero), dimensions={1}, to_apply=add
  cs = f32[70] sort(c), dimensions={0}, to_apply=less
  ROOT t = (f32[33], f32[70], f32[70,33]) tuple(s, cs, a)
}
""".replace(
    "ENTRY",
    """less {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT r = pred[] compare(x, y), direction=LT
}
ENTRY""",
)

PARALLEL = """HloModule parallel
ENTRY e {
  p = f32[3,5] parameter(0)
  q = f32[8] parameter(1)
  c = f32[8] constant({1,2,3,4,5,6,7,8})
  a = f32[5,3] transpose(p), dimensions={1,0}
  b = f32[8] add(q, c)
  ROOT t = (f32[5,3], f32[8]) tuple(a, b)
}
"""

LOOP = """HloModule loop
body {
  s = (s32[], f32[40], f32[40]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[40] get-tuple-element(s), index=1
  y = f32[40] get-tuple-element(s), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  a = f32[40] sine(y)
  b = f32[40] cosine(x)
  ROOT t = (s32[], f32[40], f32[40]) tuple(next, a, b)
}
condition {
  s = (s32[], f32[40], f32[40]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT c = pred[] compare(i, n), direction=LT
}
ENTRY e {
  p = f32[40] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[40], f32[40]) tuple(zero, p, p)
  ROOT w = (s32[], f32[40], f32[40]) while(t), condition=condition, body=body
}
"""


def device_of(api: FakeCuda, *, sync: bool = False) -> CudaDevice:
    driver = CudaDriver(api)
    driver.call("cuInit", 0)
    return CudaDevice(driver, sync=sync)


def check(text: str, api: FakeCuda, *, calls: int = 4, sync: bool = False) -> GpuExecutable:
    """Run a module several times on new inputs and compare each result with the evaluator."""
    executable = GpuExecutable(compiled(text), device_of(api, sync=sync))
    for seed in range(calls):
        arrays = inputs_for(parse_text(text), seed, special=False)
        for a, b in zip(executable(*arrays), evaluate(text, *arrays), strict=True):
            assert_close(a, b)
    return executable


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("text", [BRANCHES, LOOP], ids=["branches", "loop"])
def test_any_order_that_the_waits_allow_gives_the_result(text: str, seed: int) -> None:
    api = FakeCuda(seed=seed)
    check(text, api)
    assert "cuGraphLaunch" in api.calls


def test_a_run_is_recorded_the_second_time_and_replayed_ever_after() -> None:
    api = FakeCuda()
    executable = check(BRANCHES, api, calls=1)
    launches = api.calls.count("cuLaunchKernel")
    assert launches > 4
    arrays = inputs_for(parse_text(BRANCHES), 1, special=False)
    for _ in range(4):
        executable(*arrays)
    assert api.calls.count("cuStreamBeginCapture") == 1
    assert api.calls.count("cuGraphLaunch") == 4
    assert api.calls.count("cuLaunchKernel") == 2 * launches


def test_the_body_of_a_loop_is_recorded() -> None:
    """The host reads the predicate; each round in between is one call of the driver."""
    api = FakeCuda()
    check(LOOP, api, calls=2)
    assert api.calls.count("cuStreamBeginCapture") == 2  # the body, and what goes before the loop
    assert api.calls.count("cuGraphLaunch") == (2 * 5 - 1) + 1


def test_memory_is_kept_between_calls_and_given_back_at_the_end() -> None:
    api = FakeCuda()
    device = device_of(api)
    empty = api.memory.allocated_bytes
    executable = GpuExecutable(compiled(BRANCHES), device)
    arrays = inputs_for(parse_text(BRANCHES), 0, special=False)
    for _ in range(3):
        executable(*arrays)
    allocations = api.calls.count("cuMemAllocAsync")
    executable(*arrays)
    assert api.calls.count("cuMemAllocAsync") == allocations
    assert api.memory.allocated_bytes > empty
    del executable
    gc.collect()
    device.synchronize()
    assert api.memory.allocated_bytes == empty
    assert api.living == []


def test_waiting_after_each_launch_records_nothing() -> None:
    api = FakeCuda()
    check(LOOP, api, calls=2, sync=True)
    assert "cuStreamBeginCapture" not in api.calls
    assert api.calls.count("cuStreamSynchronize") > api.calls.count("cuLaunchKernel")


def test_the_environment_asks_for_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HLOC_GPU_SYNC", "1")
    assert not CudaDevice(CudaDriver(FakeCuda())).records


def test_other_threads_may_call() -> None:
    """The context is that of a thread; whoever calls makes it his own."""
    executable = check(BRANCHES, FakeCuda(), calls=1)
    arrays = inputs_for(parse_text(BRANCHES), 3, special=False)
    wanted = evaluate(BRANCHES, *arrays)
    found: list[list[Any]] = []
    all_at_once(3, lambda _: found.append(executable(*arrays)))
    assert len(found) == 3
    for result in found:
        for a, b in zip(result, wanted, strict=True):
            assert_close(a, b)


def test_arrays_without_elements_and_constants() -> None:
    text = entry("f32[0,3];f32[4]", "(f32[0,3], f32[4]) tuple(p0, s)").replace(
        "  ROOT", "  c = f32[4] constant({1,2,3,4})\n  s = f32[4] add(p1, c)\n  ROOT"
    )
    check(text, FakeCuda())


def test_more_than_48_kib_of_dynamic_shared_memory_is_asked_for() -> None:
    """Asserted by the driver: a launch with more than the kernel was allowed is refused."""
    api = FakeCuda()
    device = device_of(api)
    module = compiled(entry("f32[8]", "f32[8] negate(p0)"))
    code = device.load(module)
    function = replace(module.kernels[0].functions[0], dynamic_shared_bytes=100 << 10)
    source, target = device.allocate(32), device.allocate(32)
    device.write(source, np.arange(8, dtype=np.float32))
    device.launch(code, function, [source, target])
    assert list(device.read(target, 32).view(np.float32)) == [-i for i in range(8)]
    assert api.calls.count("cuKernelSetAttribute") == 1


def test_launches_are_timed_on_request() -> None:
    executable = check(BRANCHES, FakeCuda(), calls=1)
    device = executable.device
    assert isinstance(device, CudaDevice)
    device.metrics = True
    executable(*inputs_for(parse_text(BRANCHES), 0, special=False))
    names = {f.name for kernel in executable.compiled.kernels for f in kernel.functions}
    assert {name for name, _ in device.reports} == names
    assert all(seconds == 0.25e-3 for _, seconds in device.reports)


def test_launches_of_other_threads_are_not_timed() -> None:
    """Neither beside a tuning or a profile, nor among its times."""
    executable = check(BRANCHES, FakeCuda(), calls=1)
    device = executable.device
    assert isinstance(device, CudaDevice)
    seen: list[object] = []

    def run_elsewhere() -> None:
        seen.append(device.records)
        executable(*inputs_for(parse_text(BRANCHES), 0, special=False))
        seen.append(list(device.reports))

    with reports_of(device) as reports:
        assert not device.records
        other = threading.Thread(target=run_elsewhere)
        other.start()
        other.join()
        assert reports == []
    assert seen == [True, []]
    assert device.records


# ---------------------------------------------------------------- faults


def test_every_failing_call_is_reported_without_a_leak() -> None:
    """Each call of the driver fails in one run; the next run on the same device is right."""
    module = compiled(PARALLEL)
    arrays = inputs_for(parse_text(PARALLEL), 0, special=False)
    wanted = evaluate(PARALLEL, *arrays)

    def two_runs(device: CudaDevice) -> None:
        executable = GpuExecutable(module, device)
        for _ in range(2):
            executable(*arrays)

    api = FakeCuda()
    device = device_of(api)
    before = len(api.calls)
    two_runs(device)
    total = len(api.calls)
    for number in range(before, total):
        api = FakeCuda()
        device = device_of(api)
        api.fail_at = number
        message = ""
        try:
            two_runs(device)
        except HloError as fault:
            message = fault.message
        failed = bool(message)
        quiet = ("Destroy", "Free", "Unload", "CtxSetCurrent")
        assert failed or any(word in api.calls[number] for word in quiet), api.calls[number]
        device.synchronize()
        if failed:
            assert f"{api.calls[number]}: CUDA_ERROR_UNKNOWN: text of the error" in message
            assert api.memory.allocated_bytes == 0, api.calls[number]
            assert api.living == [], api.calls[number]
        executable = GpuExecutable(module, device)
        for a, b in zip(executable(*arrays), wanted, strict=True):
            assert_close(a, b)


def test_a_failing_launch_names_the_instruction() -> None:
    api = FakeCuda()
    executable = GpuExecutable(compiled(entry("f32[8]", "f32[8] sine(p0)")), device_of(api))
    array = np.zeros(8, np.float32)
    executable(array)
    first = len(api.calls)
    executable(array)
    distance = api.calls.index("cuLaunchKernel", first) - first
    api.fail_at = len(api.calls) + distance
    with pytest.raises(HloError, match="r: cuLaunchKernel: CUDA_ERROR_UNKNOWN: text of the error"):
        executable(array)


def test_a_late_fault_explains_how_to_find_the_kernel() -> None:
    api = FakeCuda()
    device = device_of(api)
    api.fail_at = len(api.calls) + 1
    with pytest.raises(HloError, match="Fake GPU: cuStreamSynchronize") as fault:
        device.synchronize()
    assert "HLOC_GPU_SYNC=1 names the kernel" in str(fault.value.diagnostics[0].notes)


def test_code_for_another_chip_is_refused() -> None:
    module = compiled(entry("f32[8]", "f32[8] sine(p0)"), cpu="sm_90")
    with pytest.raises(HloError, match="code for sm_90 does not run on Fake GPU, which is sm_80"):
        GpuExecutable(module, device_of(FakeCuda(capability=80)))
    module = compiled(entry("f32[8]", "f32[8] sine(p0)"), cpu="sm_90a")
    with pytest.raises(HloError, match="code for sm_90a"):
        GpuExecutable(module, device_of(FakeCuda(capability=100)))


def test_there_is_no_such_device() -> None:
    with pytest.raises(UnsupportedError, match="no CUDA device 1"):
        CudaDevice(CudaDriver(FakeCuda()), 1)


@pytest.mark.parametrize(
    ("capability", "chip"),
    [(80, "sm_80"), (86, "sm_86"), (90, "sm_90a"), (100, "sm_100a"), (72, "sm_70"), (30, "")],
)
def test_the_chip_of_a_device(capability: int, chip: str) -> None:
    assert nearest_chip(capability) == chip
