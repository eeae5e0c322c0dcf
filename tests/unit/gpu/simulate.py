"""Runs modules on the simulated GPU, where every access is checked, beside the evaluator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from hloc import evaluate
from hloc.codegen.gpu.context import LaunchWriter
from hloc.codegen.gpu.nvptx.backend import NvptxBackend, NvptxModule
from hloc.codegen.kernels.emitter import Emitter
from hloc.driver import optimise, parse_text
from hloc.options import CompileOptions
from hloc.runtime.gpu.executable import GpuExecutable
from hloc.runtime.gpu.host_device import HostDevice
from hloc.runtime.gpu.simulated import SimulatedDevice
from tests.inputs import inputs_for
from tests.tolerance import assert_close
from tests.unit.codegen.emitters import gpu_emitter_for

SPILL_BYTES = 16
"""What a large tile may store and load again: nvJitLink 13.5 needs 0, ptxas 13.0 up to 16."""

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


def compiled(text: str, opt_level: int = 2, cpu: str = "") -> NvptxModule:
    """Return the module of `text` compiled for a GPU."""
    options = CompileOptions(opt_level=opt_level, target="nvptx64", cpu=cpu)
    module = parse_text(text)
    optimise(module, options)
    return NvptxBackend().compile(module, options)


def check(
    text: str, opt_level: int = 2, seed: int = 0, *, special: bool = False, cpu: str = ""
) -> SimulatedDevice:
    """Run a module on random inputs and compare with the evaluator; returns the device."""
    device = SimulatedDevice(metrics=True)
    executable = GpuExecutable(compiled(text, opt_level, cpu), device)
    arrays = inputs_for(parse_text(text), seed, special=special)
    found = executable(*arrays)
    wanted = evaluate(text, *arrays)
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        assert_close(a, b)
    return device


def check_bits(text: str, arrays: Sequence[Array], emitter: Emitter[LaunchWriter]) -> None:
    """Run a module in the interpreter and as code of this machine: the bits are the evaluator's.

    Args:
        text: of the module.
        arrays: its arguments.
        emitter: must have made one of the kernels.
    """
    made = compiled(text)
    assert any(gpu_emitter_for(request.inst) is emitter for request in made.plan.kernels)
    wanted = evaluate(text, *arrays)
    for device in (SimulatedDevice(), HostDevice(reverse=True)):
        found = GpuExecutable(made, device)(*arrays)
        assert [f.tobytes() for f in found] == [w.tobytes() for w in wanted]


def entry(parameters: str, root: str, others: str = "") -> str:
    """Return a module: `f32[4],f32[]`, `f32[4] add(p0, p1)`, and further computations."""
    shapes = parameters.split(";") if parameters else []
    lines = [f"  p{i} = {shape} parameter({i})" for i, shape in enumerate(shapes)]
    return "\n".join(["HloModule m", others, "ENTRY e {", *lines, f"  ROOT r = {root}", "}"])
