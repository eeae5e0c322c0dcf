"""The same modules on a real GPU, where there is one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hloc import evaluate
from hloc.driver import parse_text
from hloc.errors import UnsupportedError
from hloc.runtime.gpu.cuda import first_device, native_chip
from hloc.runtime.gpu.executable import GpuExecutable
from hloc.runtime.gpu.profile import profile
from tests.inputs import inputs_for
from tests.tolerance import assert_close
from tests.unit.gpu.simulate import compiled
from tests.unit.gpu.test_cuda import BRANCHES, LOOP, PARALLEL

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
