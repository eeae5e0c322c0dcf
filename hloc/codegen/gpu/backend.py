"""The common part of all GPU backends: the kernels, and the stages before machine code."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial

from hloc.analysis.call_graph import has_opcode
from hloc.codegen.backend import Stage
from hloc.codegen.gpu.emit import emit_kernel, needs_defusion, plan_kernel
from hloc.codegen.gpu.exchange_form import to_exchange_form
from hloc.codegen.gpu.kernel import GpuKernel
from hloc.codegen.llvm.target import Target
from hloc.codegen.lower.hidden_sizes import DynamicBoundary
from hloc.codegen.plan.kernel_request import kernel_symbol
from hloc.codegen.plan.plan import Plan
from hloc.codegen.plan.planning import KernelRules, plan_program
from hloc.errors import HloError
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.memory.allocation import BufferReport
from hloc.memory.usage import buffers_text
from hloc.options import CompileOptions

COMMON_STAGES = (
    Stage("hlo", "the module after all passes, in the order it runs", ".hlo"),
    Stage("buffers", "bytes of memory by kind, and the place and time of every buffer", ".txt"),
    Stage("llvm-ir", "LLVM IR as hloc writes it, a module per kernel", ".ll"),
)


@dataclass(slots=True, eq=False)
class GpuModule(ABC):
    """A compiled module; texts are generated on demand.

    Attributes:
        module: the module as it was scheduled; not to be changed.
        target, stages: of the backend.
        kernels: by number, as in the plan.
        boundary: parameters and results behind the declared ones, for dynamic sizes.
    """

    module: Module
    plan: Plan
    kernels: tuple[GpuKernel, ...]
    chip: Target
    options: CompileOptions
    boundary: DynamicBoundary
    target: str = ""
    stages: tuple[Stage, ...] = COMMON_STAGES

    @property
    def buffers(self) -> BufferReport:
        """Bytes of memory by kind."""
        return self.plan.assignment.report

    def stage(self, name: str) -> str | bytes:
        """Return the form called `name`: text, or bytes for machine code.

        Raises:
            HloError: there is no such stage, or the tool that generates it is not installed.
        """
        if name not in (stage.name for stage in self.stages):
            known = ", ".join(stage.name for stage in self.stages)
            raise HloError(f"there is no stage {name!r}; stages are {known}")
        if name == "hlo":
            return self.module.to_text(style="short", large_constants=True)
        if name == "buffers":
            return buffers_text(self.plan.assignment)
        return self._code(name)

    @abstractmethod
    def _code(self, name: str) -> str | bytes:
        """Return a stage after the memory plan."""


def kernels_of(
    module: Module, options: CompileOptions, chip: Target
) -> tuple[Plan, tuple[GpuKernel, ...], DynamicBoundary]:
    """Plan an optimised module, which is changed, and emit its kernels.

    Raises:
        UnsupportedError: lists all instructions that cannot run on GPUs, with reasons.
        HloError: constants are elided in the text.
    """
    plan_one = partial(plan_kernel, libraries=options.use_library)
    rules = KernelRules(plan_one, needs_defusion, exchanges=True, combines=False)
    if has_opcode(module, "custom-call"):
        from hloc.codegen.lower.linear_algebra import own_linear_algebra

        own_linear_algebra(module)
    to_exchange_form(module, fast=options.fast_collectives)
    program = plan_program(module, options, rules)
    plan = program.plan
    kernels = (
        emit_kernel(request, kernel_symbol(key), chip)
        for request, key in zip(plan.kernels, plan.keys, strict=True)
    )
    return plan, tuple(kernels), program.boundary
