"""The LLVM modules of a program: which functions share one, and how much LLVM does with each.

Kernels and control flow are separate LLVM modules of bounded size: kernels run through LLVM's whole
pipeline, control flow through a few passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from hloc.codegen.builder.loops import UNROLL_REQUEST, has_only_short_loops, unrolled_text
from hloc.codegen.cpu.entry_function import entry_text, loop_text, split_routines
from hloc.codegen.cpu.kernel import Kernel, routine_names
from hloc.codegen.cpu.loop_function import loop_functions, only_inlined
from hloc.codegen.cpu.scalable import without_scalable
from hloc.codegen.cpu.side_by_side import arranged
from hloc.codegen.cpu.subnormals import ATTRIBUTE, FloatMode, flushing_mode
from hloc.codegen.kernels.context import root_of
from hloc.codegen.llvm.compile_pool import Function, Unit, function_units
from hloc.codegen.llvm.object_file import with_attributes
from hloc.codegen.llvm.routine import FINAL_WITH_SLOTS, ONLY_SHORT_LOOPS, SHORT_LOOPS
from hloc.codegen.llvm.target import Target
from hloc.codegen.plan.plan import KernelStep, Plan
from hloc.ir.instruction import Instruction
from hloc.options import CompileOptions
from hloc.shapes import data_leaves

_TINY_NANOSECONDS = 6
"""Kernels that run once skip LLVM's passes if their estimated time is at most this.

The sum of two `f32[8]` then takes 20 ns longer to run, and 4 ms less to compile.
"""

_TINY_CONVOLUTION_NANOSECONDS = 250
"""So do convolutions whose vectors are written out: LLVM takes longer for them.

Windows of 3x3 over 5x5 positions, 8 features in and 9 out, then compile in 0.7 of the time; a call
takes 4.4 us instead of 3.9.
"""

_FEW_NANOSECONDS, _SCALAR_FACTOR = 50, 4
"""Kernels that run once are not vectorised by LLVM if nothing else is, and their estimated times
add up to at most this. Arithmetic is estimated for vectors, and takes as many times as long alone.

A conditional on 10 f32 then compiles in 0.6 of the time, an inner product of 100 in 0.7, and they
run as fast.
"""

_SHORT_VECTORS = 16
"""Results of at most this many vectors in a loop's body count as short: a multiply-add of 64 f32
then takes 1.2 ns instead of 3.4."""

_MOST_STRAIGHT_LINES = 500
"""Most lines of a unit without short loops on which LLVM's SLP vectoriser runs."""

_KERNELS_WITH_ENTRY = 4
"""At most this many kernels without passes join the unit of the control flow."""

_UNROLLED_FROM = {"convolution": 2, "scatter": 3, "sort": 3}
"""The lowest level at which LLVM unrolls the loops of a kernel, by the opcode of its root.

Measured: depthwise convolutions take 0.6 of the time, histograms 0.8, sorts 0.9; row
normalisations, prefix sums and similar kernels would take 1.2 to 1.4 times as long.
"""

_LEAST_UNROLLED_NANOSECONDS = 100
"""Such a kernel that runs once skips LLVM's passes below this time without vectors.

Measured with strips of f32 features in memory: a convolution of 4x5 and three features with a
window of 3x3 then takes 0.82 of the time to run, and 0.51 to compile; one of 5x5 and seven features
would take 1.9 times as long to run.
"""


def units_of(
    plan: Plan, kernels: Sequence[Kernel], machine: Target, options: CompileOptions
) -> tuple[Plan, tuple[Unit, ...]]:
    """Return the arranged plan and the units: control flow, then loops, then kernels."""
    # -O0 switches off hloc's passes, not LLVM's: without them a loop runs ten times slower and
    # compiles no faster, since there is more code to emit.
    level = max(options.opt_level, 1)
    mode = float_mode(machine, options)
    loops = loop_functions(plan, kernels)
    attributes = f'nounwind "prefer-vector-width"="{machine.vector_bits}"'
    loop_texts = [loop_text(plan, kernels, loop, attributes) for loop in loops.values()]
    inlined = only_inlined(plan, loops)
    by_level: dict[int, list[Kernel]] = {}
    runs_once, without_vectors = called_once(plan), 0.0
    for number, (kernel, request) in enumerate(zip(kernels, plan.kernels, strict=True)):
        if number not in inlined:
            kernel_level = llvm_level(kernel, request.inst, level)
            if number in runs_once:
                kernel_level = 0 if _is_tiny(kernel, request.inst) else kernel_level
                if kernel_level == 3 and _scalar_nanoseconds(kernel) < _LEAST_UNROLLED_NANOSECONDS:
                    kernel_level = FINAL_WITH_SLOTS
            elif kernel_level == 2 and is_short(request.inst, machine):
                kernel_level = SHORT_LOOPS
            if kernel_level == 2:
                without_vectors += _scalar_nanoseconds(kernel) if number in runs_once else inf
            by_level.setdefault(kernel_level, []).append(kernel)
    if without_vectors <= _FEW_NANOSECONDS:
        by_level.setdefault(FINAL_WITH_SLOTS, []).extend(by_level.pop(2, []))
    # An object costs as much as a kernel that is compiled without passes.
    beside = by_level.pop(0, []) if len(by_level.get(0, ())) <= _KERNELS_WITH_ENTRY else []
    inside = {number for loop in loops.values() for number in loop.computations}
    side_by_side = arranged(plan, kernels, inside)
    entry = entry_text(side_by_side, kernels, loops, mode, beside)
    routines = dict.fromkeys(routines for kernel in kernels for routines in kernel.routines)
    routines |= dict.fromkeys(split_routines(side_by_side, kernels, loops, mode))
    return side_by_side, (
        Unit(without_scalable(entry, machine), 0),
        *(_loop_unit(text, level, machine, mode) for text in loop_texts),
        *(
            unit
            for llvm_level, part in sorted(by_level.items(), reverse=True)
            for unit in kernel_units(part, llvm_level, machine, mode)
        ),
        *(Unit(r.source, r.level, r.name) for r in routines),
    )


def _loop_unit(text: str, level: int, machine: Target, mode: FloatMode | None) -> Unit:
    """Return the unit of a loop."""
    if level == 2:
        level = ONLY_SHORT_LOOPS if has_only_short_loops(text) else SHORT_LOOPS
    level = _straight_level(text, level)
    text, metadata = _finished(text, level, machine, mode)
    return Unit("\n".join([text, *metadata]), level)


def kernel_units(
    kernels: Sequence[Kernel], level: int, machine: Target, mode: FloatMode | None
) -> list[Unit]:
    """Return the units of kernels with the same level."""
    level = _straight_level("\n".join(kernel.text for kernel in kernels), level)
    functions = []
    for kernel in kernels:
        text, metadata = _finished(kernel.text, level, machine, mode)
        declarations, calls = (*kernel.declarations, *metadata), tuple(routine_names(kernel))
        functions.append(Function(kernel.name, text, declarations, calls))
    return function_units(functions, level)


def _straight_level(text: str, level: int) -> int:
    """Return the level of a text; if it is long and has no short loops, SLP vectors do not pay."""
    if level not in (SHORT_LOOPS, ONLY_SHORT_LOOPS) or unrolled_text(text) != text:
        return level
    return 2 if text.count("\n") > _MOST_STRAIGHT_LINES else level


def _finished(
    text: str, level: int, machine: Target, mode: FloatMode | None
) -> tuple[str, tuple[str, ...]]:
    """Return functions with all attributes, short loops unrolled at some levels; their metadata."""
    metadata: tuple[str, ...] = ()
    if level in (SHORT_LOOPS, ONLY_SHORT_LOOPS) and (unrolled := unrolled_text(text)) != text:
        text, metadata = unrolled, UNROLL_REQUEST
    text = text if mode is None else with_attributes(text, ATTRIBUTE)
    return without_scalable(text, machine), metadata


def float_mode(machine: Target, options: CompileOptions) -> FloatMode | None:
    """Return the mode that flushes subnormals to zero, None if they are kept."""
    flushes = options.flush_subnormals or options.fast_math
    return flushing_mode(machine) if flushes else None


def llvm_level(kernel: Kernel, inst: Instruction, level: int) -> int:
    """Return LLVM's level for a kernel; level 3 unrolls loops, which slows most kernels down."""
    if kernel.level is not None:
        return kernel.level
    return 3 if level >= _UNROLLED_FROM.get(root_of(inst).opcode.name, 4) else min(level, 2)


def called_once(plan: Plan) -> frozenset[int]:
    """Return the numbers of kernels that only the entry computation calls."""
    entry, *others = (
        {number for step in steps if isinstance(step, KernelStep) for number in step.kernels}
        for steps in plan.computations
    )
    return frozenset(entry.difference(*others))


def is_short(inst: Instruction, machine: Target) -> bool:
    """True if all results are a few vectors, whose vectorised loops LLVM unrolls."""
    most = _SHORT_VECTORS * machine.vector_bytes
    return all(shape.size_bytes <= most for _, shape in data_leaves(inst.shape))


def _is_tiny(kernel: Kernel, inst: Instruction) -> bool:
    """True if a kernel is so small that LLVM's passes cost more time than they save."""
    name = root_of(inst).opcode.name
    if name == "convolution" and kernel.level == FINAL_WITH_SLOTS:
        return kernel.nanoseconds <= _TINY_CONVOLUTION_NANOSECONDS
    return name not in _UNROLLED_FROM and kernel.nanoseconds <= _TINY_NANOSECONDS


def _scalar_nanoseconds(kernel: Kernel) -> int:
    """Return the estimated time of a kernel if LLVM does not vectorise it."""
    return kernel.estimate.moving + _SCALAR_FACTOR * kernel.estimate.computing
