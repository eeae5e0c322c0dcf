"""From an optimised module to the plan of its kernels: the way of backends from packages.

The target says which kernels it has; everything else is the same for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hloc.codegen.lower.dynamic_boundary import DynamicBoundary
from hloc.codegen.lower.expansion import expand
from hloc.codegen.lower.lowering import lower, refuse_unsupported
from hloc.codegen.plan.plan import (
    Plan,
    calls_host,
    copies_bytes,
    does_nothing,
    plan_module,
)
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.memory.memory_plan import plan_memory
from hloc.memory.schedule import store_schedule
from hloc.ops.custom_call_targets import refusal_of
from hloc.options import CompileOptions


@dataclass(frozen=True, slots=True)
class KernelRules:
    """What a target says of its kernels.

    Attributes:
        refusal: why it has no kernel for an instruction or a fusion, "" if it has one.
        scratch_bytes: working memory that the kernel of an instruction gets as its last argument.
        needs_defusion: true for a fusion that must be taken apart.
    """

    refusal: Callable[[Instruction], str]
    scratch_bytes: Callable[[Instruction], int]
    needs_defusion: Callable[[Instruction], bool]


def plan_program(
    module: Module, options: CompileOptions, rules: KernelRules
) -> tuple[Plan, DynamicBoundary]:
    """Bring an optimised module, which is changed, into its last form, and plan how it runs.

    Raises:
        UnsupportedError: lists all that the target cannot run, with reasons.
        HloError: constants that the text left out; see `CompileOptions.fill_constants`.
    """

    def reason(inst: Instruction) -> str:
        if _runs_without_kernel(inst):
            return ""
        return refusal_of(inst) if calls_host(inst) else rules.refusal(inst)

    def working_memory(inst: Instruction) -> int:
        return 0 if _runs_without_kernel(inst) or calls_host(inst) else rules.scratch_bytes(inst)

    boundary = expand(module, rules.needs_defusion)
    refuse_unsupported(module, reason)
    lower(module, options)
    refuse_unsupported(module, reason)  # what stood inside fusions that were taken apart
    schedule, assignment = plan_memory(module, working_memory)
    store_schedule(module, schedule)
    return plan_module(module, schedule, assignment), boundary


def _runs_without_kernel(inst: Instruction) -> bool:
    return inst.opcode.control_flow or does_nothing(inst) or copies_bytes(inst)
