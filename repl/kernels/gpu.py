"""Kernels of a state for NVIDIA GPUs: their PTX, and their run in the simulator."""

from __future__ import annotations

import re
import time
from math import prod
from typing import TYPE_CHECKING

from hloc import driver
from hloc.analysis.diff.module_lines import line_of
from hloc.analysis.extract import extract
from hloc.errors import HloError
from hloc.ir.clone import clone_module
from hloc.ir.module import Module
from hloc.report.compare import compare
from hloc.report.inputs import random_inputs
from hloc.report.run_report import comparison_text
from repl.results import Table
from repl.running import Array, bounds_of, options_of, values_of

if TYPE_CHECKING:
    from hloc.codegen.gpu.kernel import GpuFunction
    from hloc.codegen.gpu.nvptx.backend import NvptxModule
    from hloc.ptx import LaunchReport
    from repl.kernels.steps import KernelSteps
    from repl.session import Session

_HEADS = (
    "kernel of", "grid", "block", "launches", "instructions/thread", "sector bytes/byte",
    "bank conflicts", "registers", "spills",
)  # fmt: skip


def ptx_text(session: Session, name: str) -> str:
    """Return the PTX of the current state, or of the kernel of instruction `name`.

    Raises:
        HloError: there is no such instruction, no kernel for it, or no such chip.
    """
    text = _compiled(session, _module(session, name)).ptx
    if not text:
        raise HloError("the module computes nothing, so it has no kernel")
    return text


def simulation(session: Session, name: str) -> tuple[Table, str, bool]:
    """Run the state, or one instruction, on random inputs in the simulator.

    Returns:
        The metrics of its kernels, the comparison as text, and whether the results agree.

    Raises:
        HloError: as for `ptx_text`; the interpreter found a fault.
    """
    from hloc.runtime.gpu.executable import GpuExecutable
    from hloc.runtime.gpu.simulated import SimulatedDevice

    module = _module(session, name)
    inputs = random_inputs(module, int(session.settings.number("seed")))
    device = SimulatedDevice(metrics=True)
    compiled = _compiled(session, module)
    started = time.perf_counter()
    found = GpuExecutable(compiled, device)(*inputs)
    seconds = time.perf_counter() - started
    fill = session.settings.text("fill-constants")
    wanted = driver.evaluate(module, *inputs, fill_constants=fill)
    comparison = compare(found, wanted, bounds_of(session))
    verdict = "agrees" if comparison.ok else "disagrees"
    text = f"{verdict} with the evaluator: {comparison_text(comparison)}; {seconds:.2f} s"
    return _table(compiled, device.reports), text, comparison.ok


def kernel_steps(session: Session, name: str) -> KernelSteps:
    """Open a kernel for stepping: of instruction `name`, on the values that its operands have.

    Without a name the whole state runs, and its first launch is opened. An instruction outside
    of the entry computation has no unique operand values: it gets random ones.

    Raises:
        HloError: as for `ptx_text`.
    """
    from repl.kernels.steps import KernelSteps

    module = _module(session, name)
    described, inputs = _inputs(session, module, name)
    compiled = _compiled(session, module)
    titles = {
        function.name: line_of(request.inst).text()
        for kernel, request in zip(compiled.kernels, compiled.plan.kernels, strict=True)
        for function in kernel.functions
    }
    steps = KernelSteps(compiled, titles, inputs, described)
    steps.trace()
    return steps


def _inputs(session: Session, module: Module, name: str) -> tuple[str, list[Array]]:
    """Return the inputs of a module of the state, with a description."""
    described = session.inputs.describe(session.origin.module)
    if not name:
        return f"inputs {described}", session.inputs.arrays(module)
    inst = session.find(name)
    seed = int(session.settings.number("seed"))
    if inst.computation is not session.current.module.entry:
        return f"inputs random, seed {seed}", random_inputs(module, seed)
    wanted = [session.find(parameter.name) for parameter in module.entry.parameters]
    if not wanted:
        return "no inputs", []
    values = values_of(session, wanted, session.inputs.arrays(session.origin.module))
    return f"inputs {described}", [array for value in values for array in value.arrays]


def _module(session: Session, name: str) -> Module:
    if not name:
        return session.current.module
    return extract(session.find(name.removeprefix("@")), 0)


def _compiled(session: Session, module: Module) -> NvptxModule:
    from hloc.codegen.gpu.nvptx.backend import NvptxBackend

    return NvptxBackend().compile(clone_module(module), options_of(session, "nvptx64"))


# ---- metrics


def _table(compiled: NvptxModule, reports: list[tuple[str, LaunchReport]]) -> Table:
    launches: dict[str, list[LaunchReport]] = {}
    for function_name, report in reports:
        launches.setdefault(function_name, []).append(report)
    uses = _uses(compiled)
    rows = [
        (kernel.source if number == 0 else f"{kernel.source} ({number + 1})",
         *_cells(function, launches[function.name]), *uses.get(function.name, ("?", "?")))
        for kernel in compiled.kernels
        for number, function in enumerate(kernel.functions)
        if function.name in launches
    ]  # fmt: skip
    title = f"in the simulator, for {compiled.chip.cpu}"
    return Table(title, _HEADS, tuple(rows), right=tuple(range(1, len(_HEADS))))


def _cells(function: GpuFunction, reports: list[LaunchReport]) -> tuple[str, ...]:
    from hloc.ptx import LaunchReport

    total = LaunchReport.total(reports)
    threads = prod(function.grid) * function.threads * len(reports)
    return (
        _extent(function.grid),
        _extent(function.block),
        str(len(reports)),
        f"{total.thread_instructions / threads:.1f}",
        f"{total.sector_bytes / total.global_bytes:.2f}" if total.global_bytes else "-",
        f"{total.bank_conflict_ratio:.2f}x" if total.shared_accesses else "-",
    )


def _extent(extent: tuple[int, int, int]) -> str:
    return re.sub(r"(x1)+$", "", "x".join(map(str, extent))) or "1"


def _uses(compiled: NvptxModule) -> dict[str, tuple[str, str]]:
    """Return registers and spilled bytes of each function, if an assembler is installed."""
    from hloc.codegen.gpu.nvptx.cubin import assemble, can_assemble

    if not can_assemble():
        return {}
    uses = assemble(compiled.ptx, compiled.chip.cpu).uses
    return {name: (str(use.registers), str(use.spill_bytes)) for name, use in uses.items()}
