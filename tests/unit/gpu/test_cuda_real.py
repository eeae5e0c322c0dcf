"""The same modules on a real GPU, where there is one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hloc
from hloc import evaluate
from hloc.driver import parse_text
from hloc.errors import UnsupportedError
from hloc.evaluator import evaluate_devices
from hloc.runtime.communicator.nccl.library import installed_library
from hloc.runtime.gpu.cuda_devices import first_device, first_devices, native_chip
from hloc.runtime.gpu.devices_executable import GpuDevicesExecutable
from hloc.runtime.gpu.executable import GpuExecutable
from hloc.runtime.gpu.profile import profile
from tests.inputs import inputs_for
from tests.tolerance import assert_close
from tests.unit.gpu.simulate import compiled
from tests.unit.gpu.test_cuda import BRANCHES, LOOP, PARALLEL
from tests.unit.gpu.test_warpgroup_kinds import KINDS, ORDERS, arrays_for
from tests.unit.gpu.test_warpgroup_product import dot

pytestmark = pytest.mark.cuda


@pytest.fixture(scope="module")
def device() -> Any:
    try:
        return first_device()
    except UnsupportedError as fault:
        pytest.skip(fault.message)


@pytest.mark.parametrize("text", [BRANCHES, LOOP, PARALLEL], ids=["branches", "loop", "parallel"])
def test_modules_run_as_in_the_interpreter(text: str, device: Any) -> None:
    """Step by step, recorded and replayed; then timed."""
    executable = GpuExecutable(compiled(text, cpu=native_chip()), device)
    for seed in range(4):
        arrays = inputs_for(parse_text(text), seed, special=False)
        for a, b in zip(executable(*arrays), evaluate(text, *arrays), strict=True):
            assert_close(a, b)
    assert all(kernel.seconds for kernel in profile(executable, arrays).kernels)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", ["bf16", *KINDS])
def test_large_products(kind: str, order: str, device: Any) -> None:
    """By warpgroups on sm_90a; sums of f8, which have fewer bits there, are rounded to bf16."""
    types, result, more, _ = KINDS.get(kind, (kind, "f32", "", ""))
    text = dot(1024, 1152, 1040, order, types, "bf16" if "f8" in types else result, more)
    arrays = arrays_for(text)
    executable = GpuExecutable(compiled(text, cpu=native_chip()), device)
    for found, wanted in zip(executable(*arrays), evaluate(text, *arrays), strict=True):
        assert_close(found, wanted)


def test_results_are_taken_by_other_packages_without_a_copy(device: Any) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    executable = GpuExecutable(compiled(PARALLEL, cpu=native_chip()), device)
    arrays = inputs_for(parse_text(PARALLEL), 0, special=False)
    tensors = [torch.as_tensor(array, device="cuda") for array in arrays]
    results = executable.on_device(*tensors)
    for result, wanted in zip(results, evaluate(PARALLEL, *arrays), strict=True):
        taken = torch.from_dlpack(result)
        assert taken.data_ptr() == result.address
        assert_close(taken.cpu().numpy(), np.asarray(wanted))


TWO = """HloModule m, num_partitions=2
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
ENTRY e {
  x = f32[64,6] parameter(0)
  s = f32[64,6] all-reduce(x), replica_groups={{0}}, channel_id=1, to_apply=add
  g = f32[64,12] all-gather(x), replica_groups={{0}}, channel_id=1, dimensions={1}
  p = f32[64,6] collective-permute(s), source_target_pairs={{0,1},{1,0}}, channel_id=1
  b = f32[64,6] collective-broadcast(x), replica_groups={{1,0}}, channel_id=1
  ROOT t = (f32[64,12], f32[64,6], f32[64,6]) tuple(g, p, b)
}
"""


def test_two_gpus_exchange_data_through_nccl() -> None:
    try:
        first_devices(2)
        installed_library()
    except UnsupportedError as fault:
        pytest.skip(fault.message)
    rng = np.random.default_rng(0)
    arguments = [[rng.standard_normal((64, 6)).astype(np.float32) for _ in range(2)]]
    program = hloc.compile(TWO, target="nvptx64")
    assert isinstance(program, GpuDevicesExecutable)
    for _ in range(3):
        found = program.run_devices(arguments)
        for parts, wanted in zip(found, evaluate_devices(parse_text(TWO), arguments), strict=True):
            for x, y in zip(parts, wanted, strict=True):
                assert x.tobytes() == y.tobytes()
