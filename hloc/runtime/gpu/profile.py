"""The cost of each kernel of a module: times on a device, counts in the interpreter."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from hloc.analysis.cost import Cost, computation_cost, instruction_cost
from hloc.analysis.gpu_devices import DeviceSpec, spec_of_device
from hloc.dtypes import F32, DType
from hloc.errors import HloError
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.traversal import reachable_computations
from hloc.lazy_dataclass import dataclass
from hloc.ptx import LaunchReport
from hloc.runtime.gpu.executable import GpuExecutable
from hloc.runtime.gpu.measuring import MeasuringDevice, reports_of

ROUNDS = 7
"""Runs of a module on a device; the median is reported."""


@dataclass(frozen=True, slots=True)
class KernelProfile:
    """All launches of one kernel in one run of a module.

    Attributes:
        source: name of an instruction that it computes.
        dtype, algorithm: of its arithmetic, on which peaks depend.
        cost: total cost of all launches.
        seconds: on the device; None in the interpreter.
        counts: of the interpreter, zeros on a device.
    """

    source: str
    opcode: str
    runs: int
    cost: Cost
    dtype: DType
    algorithm: str
    seconds: float | None
    counts: LaunchReport

    def share_of(self, spec: DeviceSpec) -> float | None:
        """Return the roofline time as a share of the measured time; None without times."""
        if not self.seconds:
            return None
        flops = self.cost.flops + self.cost.transcendentals
        return spec.seconds(flops, self.cost.bytes, self.dtype, self.algorithm) / self.seconds


@dataclass(frozen=True, slots=True)
class ModuleProfile:
    """The kernels of one run, the most expensive first.

    Attributes:
        spec: peaks of the device, None if unknown.
    """

    device: str
    spec: DeviceSpec | None
    kernels: tuple[KernelProfile, ...]


def profile(executable: Any, arrays: Sequence[Any]) -> ModuleProfile:
    """Run a module on `arrays` and return the costs of its kernels.

    Raises:
        HloError: it does not run on a GPU or in the PTX interpreter; the run fails.
    """
    device = getattr(executable, "device", None)
    if not isinstance(executable, GpuExecutable) or not isinstance(device, MeasuringDevice):
        raise HloError(
            "profiles are for GPU programs only",
            notes=("--target=nvptx64, with --simulate=ptx where there is no GPU",),
        )
    rounds = _measured(executable, device, arrays)
    costs: dict[Computation, Cost] = {}
    for computation in reachable_computations(executable.compiled.module.entry):
        costs[computation] = computation_cost(computation, costs.__getitem__)
    result = []
    compiled = executable.compiled
    for kernel, request in zip(compiled.kernels, compiled.plan.kernels, strict=True):
        names = [function.name for function in kernel.functions]
        if kernel.library is not None:
            names.append(kernel.name)
        each = [[value for name, value in round_ if name in names] for round_ in rounds]
        if not each[0]:
            continue
        runs = len(each[0]) // len(names)
        is_timed = isinstance(each[0][0], float)
        result.append(
            KernelProfile(
                kernel.source,
                request.inst.opcode.name,
                runs,
                instruction_cost(request.inst, costs.__getitem__).times(runs),
                *_arithmetic(request.inst),
                statistics.median(map(sum, each)) if is_timed else None,
                LaunchReport.total([] if is_timed else each[0]),
            )
        )
    result.sort(key=lambda k: (-(k.seconds or 0.0), -k.counts.thread_instructions, k.source))
    name = executable.device.name
    return ModuleProfile(name, spec_of_device(name), tuple(result))


def _measured(
    executable: GpuExecutable, device: MeasuringDevice, arrays: Sequence[Any]
) -> list[list[tuple[str, Any]]]:
    """Return the reports of every round; a single round without timing."""
    executable(*arrays)  # kernels are loaded at their first launch
    rounds: list[list[tuple[str, Any]]] = []
    while len(rounds) < ROUNDS:
        with reports_of(device) as reports:
            executable(*arrays)
            rounds.append(list(reports))
        if not any(isinstance(value, float) for _, value in rounds[-1]):
            break
    return rounds


def _arithmetic(inst: Instruction) -> tuple[DType, str]:
    """Return the element type of a kernel's arithmetic, and the algorithm of its gemm."""
    inside = inst.called[0].instructions if inst.is_a("fusion") else (inst,)
    dots = [i for i in inside if i.is_a("dot", "convolution")]
    if not dots:
        return F32, ""
    return dots[0].operands[0].array.dtype, dots[0].attributes.algorithm
