"""From an optimised module to the plan of its kernels, the same for every target.

The target says which kernels it has; each is planned once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from hloc.analysis.call_graph import control_flow_computations
from hloc.analysis.divergence import divergent_computations
from hloc.codegen.lower.collapsed_dimensions import collapse_dimensions
from hloc.codegen.lower.combiner import combiner
from hloc.codegen.lower.expansion import expand
from hloc.codegen.lower.hidden_sizes import DynamicBoundary
from hloc.codegen.lower.lowering import lower, refuse_unsupported
from hloc.codegen.plan.check import check_plan
from hloc.codegen.plan.collective_exchange import exchange_of
from hloc.codegen.plan.exchange import MOST_COMBINED
from hloc.codegen.plan.kernel_request import InstructionKeys, KernelRequest, PlannedKernel
from hloc.codegen.plan.plan import Plan
from hloc.codegen.plan.plan_steps import PlannedExchange, plan_module, runs_as
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.memory.heap import PackFunction, pack
from hloc.memory.memory_plan import plan_memory
from hloc.memory.panels import drop_tiles
from hloc.memory.schedule import store_schedule
from hloc.ops.custom_calls.custom_call_targets import refusal_of
from hloc.ops.participants import devices_reason
from hloc.ops.transfers import is_between_devices, transferred
from hloc.options import CompileOptions

NO_KERNEL = "there is no code generator for it yet"


@dataclass(frozen=True, slots=True)
class KernelRules:
    """The kernels and properties of a target.

    Attributes:
        plan: plans the kernel of an instruction or a fusion; None if the target has none.
        needs_defusion: true for a fusion that must be defused.
        refusal: the reason shown for instructions without a kernel.
        stack_bytes: scratch memory up to this size lies on the stack of the kernel.
        pack: places temporaries in memory.
        share_outputs: temporaries may lie in outputs that are not written yet.
        exchanges: devices of the target exchange data.
        combines: the engine that does so has compiled functions for reductions.
        collapses_dimensions: adjacent dimensions that a kernel treats alike become one.
        arrange: the last change of a module: constants get the layouts that kernels read best.
    """

    plan: Callable[[Instruction], PlannedKernel | None]
    needs_defusion: Callable[[Instruction], bool]
    refusal: str = NO_KERNEL
    stack_bytes: int = 0
    pack: PackFunction = pack
    share_outputs: bool = True
    exchanges: bool = False
    combines: bool = True
    collapses_dimensions: bool = False
    arrange: Callable[[Module], None] | None = None


@dataclass(frozen=True, slots=True)
class PlannedProgram:
    """A lowered module and its plan.

    Attributes:
        plan: its steps, kernels and memory.
        boundary: parameters and results behind the declared ones, for dynamic sizes.
        assignment_seconds: time for the schedule and the buffer assignment.
    """

    plan: Plan
    boundary: DynamicBoundary
    assignment_seconds: float


def plan_program(module: Module, options: CompileOptions, rules: KernelRules) -> PlannedProgram:
    """Lower an optimised module in place, and plan how it runs.

    Raises:
        UnsupportedError: lists all instructions that the target cannot run, with reasons.
        HloError: constants are elided in the text; see `CompileOptions.fill_constants`.
        InternalError: the plan is invalid, see `check_plan`.
    """
    keys = InstructionKeys()
    plans = _KernelPlans(rules, keys)
    drop_tiles(module)
    boundary = expand(module, keys.once(rules.needs_defusion))
    refuse_unsupported(module, plans.refusal)
    version = module.version
    lower(module, options)
    if rules.collapses_dimensions:
        collapse_dimensions(module)
    if module.version != version:
        refuse_unsupported(module, plans.refusal)
    if rules.arrange is not None and not {"constant", "while"}.isdisjoint(module.opcodes):
        rules.arrange(module)
    requests = plans.requests(module, is_changed=module.version != version)

    def scratch_bytes(inst: Instruction) -> int:
        size = requests[inst].scratch_bytes if inst in requests else 0
        return size if size > rules.stack_bytes else 0

    started = time.perf_counter()
    schedule, assignment = plan_memory(
        module, scratch_bytes, rules.pack, share_outputs=rules.share_outputs
    )
    store_schedule(module, schedule)
    seconds = time.perf_counter() - started
    plan = plan_module(module, schedule, assignment, keys, requests, plans.exchanges(module))
    check_plan(plan, rules.stack_bytes)
    return PlannedProgram(plan, boundary, seconds)


def _layout_reason(inst: Instruction) -> str:
    """Return why the data of a transfer cannot be sent in its layout, "" if it can."""
    if inst.is_a("send-done"):
        return ""
    shape = transferred(inst)
    is_plain = shape.minor_to_major == shape.with_layout(None).minor_to_major
    return "" if is_plain else "its data is not row-major"


class _KernelPlans:
    """The plans of kernels; instructions that compute the same share one."""

    def __init__(self, rules: KernelRules, keys: InstructionKeys) -> None:
        self._rules = rules
        self._keys = keys
        self._request_once = keys.once(self._request)

    def refusal(self, inst: Instruction) -> str:
        """Return why the target cannot run `inst`, "" if it can."""
        how = runs_as(inst)
        if is_between_devices(inst) and self._rules.exchanges:
            return _layout_reason(inst)
        if inst.opcode.refusal:
            return inst.opcode.refusal
        if how in ("exchange", "number"):
            return devices_reason(inst, can_exchange=self._rules.exchanges)
        if how == "host":
            return refusal_of(inst)
        return self._rules.refusal if how == "kernel" and self._request_once(inst) is None else ""

    def _request(self, inst: Instruction) -> KernelRequest | None:
        plan = self._rules.plan(inst)
        return None if plan is None else KernelRequest(inst, (), plan)

    def requests(self, module: Module, *, is_changed: bool) -> dict[Instruction, KernelRequest]:
        """Return the request of each instruction that needs a kernel, without aliases.

        A kernel's plan refers to instructions. So a request holds the instruction that was planned,
        and is created again if the module `is_changed` since the first was.
        """
        request_once = self._keys.once(self._request) if is_changed else self._request_once
        found: dict[Instruction, KernelRequest] = {}
        for computation in control_flow_computations(module):
            for inst in computation.instructions:
                if runs_as(inst) == "kernel":
                    request = request_once(inst)
                    assert request is not None, inst.name  # else it was refused
                    found[inst] = request
        return found

    def exchanges(self, module: Module) -> dict[Instruction, PlannedExchange]:
        """Return the exchanges of all collectives, and the kernels of their reductions."""
        divergent = divergent_computations(module)
        return {
            inst: self._exchange(inst, may_diverge=computation in divergent)
            for computation in control_flow_computations(module)
            for inst in computation.instructions
            if runs_as(inst) == "exchange"
        }

    def _exchange(self, inst: Instruction, *, may_diverge: bool) -> PlannedExchange:
        exchange = replace(exchange_of(inst), may_diverge=may_diverge)
        if not self._rules.combines:
            return PlannedExchange(replace(exchange, combiners=()), ())
        requests = []
        for wanted in exchange.combiners:
            dtype = inst.operands[wanted.operand].array.dtype
            kernel = combiner(inst.called[0], dtype, wanted.members, MOST_COMBINED)
            requests.append(KernelRequest(kernel, (None,), self._rules.plan(kernel)))
        return PlannedExchange(exchange, tuple(requests))
