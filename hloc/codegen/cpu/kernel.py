"""Kernels: one LLVM function per distinct instruction or fusion, and their calling convention.

    define void @NAME(ptr %arg0, ..., i64 %begin, i64 %end)

The arguments are the arrays of the operands' leaves, those of the result's leaves, then scratch
memory if the kernel needs any. `begin` and `end` bound the outermost loop, which runs to `extent`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace
from functools import partial

from hloc.codegen.builder.loops import MOST_TRIPS
from hloc.codegen.builder.values import NeedsScalars
from hloc.codegen.cpu.cpu_plan import CpuPlan, LoopSchedule
from hloc.codegen.cpu.emitters import loop, table
from hloc.codegen.cpu.emitters.attention.attention_plan import attention_plan
from hloc.codegen.cpu.emitters.convolution import grouped_epilogue, winograd
from hloc.codegen.cpu.emitters.gemm import gemm_epilogue
from hloc.codegen.cpu.emitters.reduction import row_region, rows_in_lanes
from hloc.codegen.cpu.scaled_product import ScaledProduct, scaled_product
from hloc.codegen.cpu.split_kernel import Estimate, Split, estimate_of, split_of
from hloc.codegen.elements import reductions, remap, scalar_control, selected_functions
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.emitter import KernelPlan, PlannedKernel, first_plan
from hloc.codegen.kernels.lanes import FEWEST_LANES, has_masks, lane_count
from hloc.codegen.llvm.routine import Routines
from hloc.codegen.llvm.target import Target
from hloc.codegen.lower.fusible import is_beyond
from hloc.codegen.plan.kernel_request import KernelRequest, needs_kernel
from hloc.dtypes import U8
from hloc.errors import UnsupportedError
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.shapes import array_leaves

RULE_MODULES = (remap, reductions, scalar_control, selected_functions)
"""The modules that register element rules; named here so that they are imported."""


_FEW_TRIPS = 3
"""An outermost loop of at most this many trips has constant bounds, so that LLVM may unroll it.

Otherwise LLVM vectorises it with masked lanes, gathers and scatters. A scan over matrices of 3x3
takes 0.7 of the time when unrolled; loops of 4 trips are faster vectorised.
"""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A finished kernel.

    Attributes:
        text: the function definition.
        declarations: declarations and constants that it needs, one per entry.
        extent: end of the outermost loop.
        scratch_bytes: size of the last argument, 0 if there is none.
        split: how threads share the outermost loop, None if one thread runs it.
        routines: functions of other units that it calls.
        level: LLVM's level for it, None if the module's.
        estimate: of its time.
        scaled: which operand its callers scale, None if they do not.
    """

    name: str
    text: str
    declarations: tuple[str, ...]
    extent: int
    scratch_bytes: int
    split: Split | None = None
    routines: tuple[Routines, ...] = ()
    level: int | None = None
    estimate: Estimate = Estimate(0, 0)
    scaled: ScaledProduct | None = None

    @property
    def nanoseconds(self) -> int:
        """The estimated time on one thread."""
        return self.estimate.nanoseconds


def routine_names(kernel: Kernel) -> Iterator[str]:
    """Yield the symbols of the routines that a kernel calls."""
    for routines in kernel.routines:
        yield from routines.symbols


def plan_kernel(inst: Instruction) -> PlannedKernel[KernelContext] | None:
    """Return the plan of the kernel of `inst`, None if no emitter supports it."""
    return first_plan(table.EMITTERS, inst) if needs_kernel(inst) else None


def needs_defusion(inst: Instruction) -> bool:
    """True if fusion `inst` must be defused before kernels are planned."""
    if attention_plan(inst) is not None:
        return False
    cores = (emitter.core_of(inst) for emitter in (winograd, gemm_epilogue, grouped_epilogue))
    core = next(filter(None, cores), None)
    return is_beyond(inst, row_region.plan(inst) is not None, core)


def emit_kernel(
    request: KernelRequest,
    name: str,
    target: Target,
    *,
    stack_bytes: int = 0,
    with_lanes: bool = True,
    is_repeated: bool = False,
    is_inlined: bool = False,
    choice: Hashable = None,
) -> Kernel:
    """Emit the kernel of a request as the LLVM function `name`.

    Args:
        request: the instruction, and its plan.
        name: of the function.
        target: the machine.
        stack_bytes: scratch memory of at most this many bytes is on the stack.
        with_lanes: its loops may be over lanes; otherwise vectorisation is left to LLVM.
        is_repeated: the program may run it many times: its time matters more than its compilation.
        is_inlined: it is part of the function of a loop.
        choice: one of `choices_of`, None for the first.

    Raises:
        UnsupportedError: no emitter supports it.
    """
    inst = request.inst
    planned = _planned(request)
    if choice is None and isinstance(planned.plan, CpuPlan):
        choice = planned.plan.usual(target)
    if isinstance(planned.plan, CpuPlan) and planned.plan.apart and not _is_in_place(request):
        planned = replace(planned, plan=planned.plan.apart)
    estimate = estimate_of(inst, in_place=_is_in_place(request))
    estimate = replace(estimate, measured=planned.plan.nanoseconds)
    if with_lanes:
        side_by_side = _side_by_side(request, name, target, stack_bytes, estimate, is_repeated)
        if side_by_side is not None:
            return side_by_side
    split = split_of(planned.plan, estimate)
    lanes = lane_count(inst, target) if with_lanes else 0
    if lanes:
        lanes = _filled(inst, planned, target, lanes)
    if lanes and _cuts_vectors(inst, planned, split, lanes):
        lanes = 0
    if isinstance(choice, LoopSchedule):
        several = lanes * choice.vectors
        is_cut = _cuts_vectors(inst, planned, split, several)
        if not is_cut and not _ends_within(request, planned, target, several):
            lanes = several
    form = _Form(lanes, choice, is_repeated, is_inlined)
    try:
        made = _written(request, planned.plan, name, target, stack_bytes, split, form)
    except NeedsScalars:
        form = replace(form, lanes=0)
        made = _written(request, planned.plan, name, target, stack_bytes, split, form)
    scaled = scaled_product(inst, target) if is_repeated else None
    return replace(made, estimate=estimate, scaled=scaled)


def _side_by_side(
    request: KernelRequest,
    name: str,
    target: Target,
    stack_bytes: int,
    estimate: Estimate,
    is_repeated: bool,
) -> Kernel | None:
    """Return the kernel of short rows with a row in each lane, None if it has no such form."""
    plan, in_place = _planned(request).plan, _is_in_place(request)
    rows = rows_in_lanes.plan(request.inst, target, in_place=in_place)
    planned: KernelPlan[KernelContext] | None = None
    if rows is not None:
        emit = partial(rows_in_lanes.emit, rows, by_routines=not is_repeated)
        planned = KernelPlan(emit, rows.rows.count)
    elif isinstance(plan, CpuPlan) and not in_place:
        planned = plan.rows_in_lanes(target)
    if planned is None:
        return None
    planned = replace(planned, scratch_bytes=plan.scratch_bytes)  # which is reserved already
    split, form = split_of(planned, estimate), _Form(lane_count(request.inst, target), choice=None)
    try:
        made = _written(request, planned, name, target, stack_bytes, split, form)
    except NeedsScalars:
        return None
    return replace(made, estimate=estimate)


def choices_of(request: KernelRequest, target: Target) -> tuple[Hashable, ...]:
    """Return the ways to emit a kernel, all with the same bits; the first is the usual one."""
    plan = _planned(request).plan
    return plan.choices(target) if isinstance(plan, CpuPlan) else (None,)


def _planned(request: KernelRequest) -> PlannedKernel[KernelContext]:
    """Return the plan of a request.

    Raises:
        UnsupportedError: no emitter supports it.
    """
    inst = request.inst
    planned = request.planned or plan_kernel(inst)
    if planned is None:
        raise UnsupportedError(f"{inst.opcode.name} is not supported on cpu", inst.span)
    assert isinstance(planned, PlannedKernel)
    return planned


def _filled(
    inst: Instruction, planned: PlannedKernel[KernelContext], target: Target, lanes: int
) -> int:
    """Return `lanes`, or half of them if contiguous elements of the largest array fill no more.

    These are the reduced arrays, or else operands and results. For even fewer elements,
    vectorisation is left to LLVM.
    """
    if planned.plan.is_one_row:
        return lanes
    if planned.emitter is row_region.EMITTER and has_masks(target):
        return lanes  # with masked lanes
    members = inst.called[0].instructions if inst.is_a("fusion") else (inst,)
    arrays = [o for m in members if m.is_a("reduce") for o in m.operands] or [inst, *inst.operands]
    shapes = [shape for array in arrays for shape in array_leaves(array.shape)]
    largest = max(shapes, key=lambda shape: shape.elements)
    size = next((largest.dims[d] for d in largest.minor_to_major if largest.dims[d] != 1), 1)
    half = lanes // 2
    return half if FEWEST_LANES <= half <= size < lanes else lanes


def _cuts_vectors(
    inst: Instruction, planned: PlannedKernel[KernelContext], split: Split | None, lanes: int
) -> bool:
    """True if parts of threads may begin within a vector, as for expensive elements."""
    is_loop = planned.emitter is loop.EMITTER
    if split is None or not is_loop or not lanes or not split.grain % lanes:
        return False
    return planned.plan.extent == array_leaves(inst.shape)[0].elements


def _ends_within(
    request: KernelRequest, planned: PlannedKernel[KernelContext], target: Target, lanes: int
) -> bool:
    """True if a loop in place would end within a vector, so that it had to run without vectors.

    Its last vector cannot compute elements again: their operands are overwritten.
    """
    return (
        _is_in_place(request)
        and not has_masks(target)
        and lanes > 0
        and planned.plan.extent % lanes > 0
    )


def _is_in_place(request: KernelRequest) -> bool:
    """True if a result shares the memory of an operand."""
    return any(operand is not None for operand in request.aliased)


@dataclass(frozen=True, slots=True)
class _Form:
    """How a kernel is emitted: see `KernelContext`."""

    lanes: int
    choice: Hashable
    is_repeated: bool = False
    is_inlined: bool = False


def _written(
    request: KernelRequest,
    plan: KernelPlan[KernelContext],
    name: str,
    target: Target,
    stack_bytes: int,
    split: Split | None,
    form: _Form,
) -> Kernel:
    """Emit the kernel in a form.

    Raises:
        NeedsScalars: it has an operation without a vector form.
    """
    inst = request.inst
    scratch = plan.scratch_bytes
    on_stack = 0 < scratch <= stack_bytes
    has_scratch = scratch > 0 and not on_stack
    function = plan.library_function
    k = KernelContext(inst, request.aliased, name, target, has_scratch, form.lanes, function)
    k.choice, k.is_repeated, k.is_inlined = form.choice, form.is_repeated, form.is_inlined
    has_few = plan.extent <= _FEW_TRIPS
    if k.unrolls:
        has_few = plan.extent // form.lanes <= MOST_TRIPS
    if split is None and has_few:
        k.begin, k.end = 0, plan.extent
    if on_stack:
        k.scratch = k.b.allocate(U8, scratch)
        scratch = 0
    if not any(leaf.elements for leaf in array_leaves(inst.shape)):
        return Kernel(name, k.fn.finish(), (), 1, scratch)
    plan.emit(k)
    text = k.fn.finish()
    return Kernel(
        name,
        text,
        tuple(k.fn.declarations),
        plan.extent,
        scratch,
        split,
        tuple(k.routines.values()),
        k.level,
    )
