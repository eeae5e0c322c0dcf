"""Kernels on several threads: their choice, their parts, and the LLVM text around them.

Parts are ranges of a kernel's outermost loop, whose iterations are independent. The assignment of
parts to threads is dynamic, the result of a part does not depend on it, so results have the same
bits for every number of threads.

The pointer table holds the threads of a run, or null for none:

    struct { void (*run)(void *context, void (*task)(void *data, int part), void *data, int count);
             void *context; int workers; void *scratch; }

`run` calls the task for part 0, and may call it for parts 1 to `count - 1`, concurrently or not at
all. `scratch` holds scratch memory for every worker but the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from hloc.analysis.cost import Cost, computation_cost, instruction_cost
from hloc.analysis.epilogue import PRODUCTS
from hloc.codegen.cpu.subnormals import FloatMode
from hloc.codegen.kernels.emitter import KernelPlan
from hloc.codegen.llvm.routine import Routines
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass

THREADS_TYPE = "{ ptr, ptr, i32, ptr }"
"""LLVM's type of the threads of a run."""

SCRATCH_ALIGNMENT_BYTES = 64

MOST_ARRAYS = 16
"""Most arrays of kernels whose routine is precompiled."""

_NUMBERS = ("extent", "grain", "step", "most", "worker_bytes")

MIN_NANOSECONDS = 80_000
"""Kernels with at least this estimated time are split: twice the time to wake a thread."""

_PART_NANOSECONDS = 40_000
_MOST_PARTS = 256
_TILE = 16
"""Parts of many steps are multiples of the tiles of transposes."""

_CACHED_BYTES = 2 << 20
_CACHED_BYTES_PER_NANOSECOND = 32
_BYTES_PER_NANOSECOND = 12
"""What one core moves: of arrays that fit its cache, and of what is beyond."""

_REPEATED_BYTES_PER_NANOSECOND = 4
_MOST_REPEATED = 4
"""The work that every part repeats is at most 1 / this of the total."""

_FLOPS_PER_NANOSECOND = 32
_PRODUCT_FLOPS_PER_NANOSECOND = 100
_FUNCTIONS_PER_NANOSECOND = 2
_GRAIN_NANOSECONDS = 2000
_SHORT_STEP_NANOSECONDS = 200
_SHORT_STEP_GRAIN = 256
"""Short steps may be lanes of LLVM's vectors, which should be aligned alike in all parts."""


@dataclass(frozen=True, slots=True)
class Split:
    """The partition of the outermost loop of a kernel.

    Attributes:
        grain: parts begin at multiples of it.
        step: size of a part; 0 for one part per thread, for kernels that repeat work in every part.
    """

    grain: int
    step: int


def split_of(inst: Instruction, plan: KernelPlan[Any]) -> Split | None:
    """Return the partition of the kernel of `inst`; None if it should run on one thread."""
    extent = plan.extent
    if extent < 2:
        return None
    nanoseconds = estimated_nanoseconds(inst)
    if nanoseconds < MIN_NANOSECONDS:
        return None
    grain = _grain(nanoseconds / extent)
    if extent <= grain:
        return None
    if plan.repeated_bytes:
        repeated = plan.repeated_bytes // _REPEATED_BYTES_PER_NANOSECOND
        return Split(grain, 0) if repeated * _MOST_REPEATED < nanoseconds else None
    parts = min(max(nanoseconds // _PART_NANOSECONDS, 2), _MOST_PARTS)
    step = _multiple(-(-extent // parts), grain)
    return Split(grain, _multiple(step, _TILE) if step > _TILE else step)


def estimated_nanoseconds(inst: Instruction) -> int:
    """Estimate the time of one thread for the kernel of `inst`.

    The constants do not depend on the machine, so that parts are the same on all machines.
    """

    def called(computation: Computation) -> Cost:
        return computation_cost(computation, called)

    cost = instruction_cost(inst, called)
    members = inst.called[0].instructions if inst.opcode.name == "fusion" else (inst,)
    is_product = any(member.is_a(*PRODUCTS) for member in members)
    flops_per_nanosecond = _PRODUCT_FLOPS_PER_NANOSECOND if is_product else _FLOPS_PER_NANOSECOND
    moved = min(cost.bytes, cost.bytes_written + _read_bytes(inst))
    return (
        min(moved, _CACHED_BYTES) // _CACHED_BYTES_PER_NANOSECOND
        + max(moved - _CACHED_BYTES, 0) // _BYTES_PER_NANOSECOND
        + cost.flops // flops_per_nanosecond
        + cost.transcendentals // _FUNCTIONS_PER_NANOSECOND
    )


def _read_bytes(inst: Instruction) -> int:
    """Return the bytes read of the operands; of sliced operands, the size of the slices."""
    if inst.opcode.name != "fusion":
        return sum(operand.shape.size_bytes for operand in inst.operands)
    total = 0
    for parameter in inst.called[0].parameters:
        size = parameter.shape.size_bytes
        taken = sum(
            user.shape.size_bytes if _takes_part(user) and user.operands[0] is parameter else size
            for user in parameter.users
        )
        total += min(size, taken)
    return total


def _takes_part(inst: Instruction) -> bool:
    """True if `inst` reads at most as many elements of its operand as its result has."""
    return inst.opcode.data_movement and inst.array.elements < inst.operands[0].array.elements


def _multiple(size: int, of: int) -> int:
    return -(-size // of) * of


def _grain(step_nanoseconds: float) -> int:
    """Return the granularity of parts in steps, a power of two."""
    grain = _SHORT_STEP_GRAIN if step_nanoseconds < _SHORT_STEP_NANOSECONDS else 1
    while grain * step_nanoseconds < _GRAIN_NANOSECONDS:
        grain *= 2
    return grain


@cache
def split_routine(arguments: int, mode: FloatMode | None = None) -> Routines:
    """Return the function that runs a kernel with this many arrays on several threads.

        split(threads, kernel, extent, grain, step, most, worker_bytes, arrays...)

    The numbers are those of `split_numbers`. With a `mode`, all threads flush subnormals.
    """
    name = f"split_{arguments}{'_flushed' if mode else ''}"
    numbers = ("ptr %threads", "ptr %kernel", *(f"i64 %{number}" for number in _NUMBERS))
    arrays = [f"ptr %a{i}" for i in range(arguments)]
    lines = [
        *(mode.declarations if mode else ()),
        f"define void @{name}({', '.join([*numbers, *arrays])}) nounwind {{",
        *_shared_out(arguments, mode),
        "}",
        "",
        "define internal void @task(ptr %region, i32 %worker) nounwind {",
        *_task(arguments, mode),
        "}",
    ]
    types = ", ".join(["ptr", "ptr", *["i64"] * len(_NUMBERS), *["ptr"] * arguments])
    return Routines(name, (f"declare void @{name}({types})",), "\n".join(lines) + "\n", 0)


def split_numbers(extent: int, split: Split, scratch_bytes: int) -> tuple[int, ...]:
    """Return the arguments that describe a kernel to the routine.

    Args:
        extent: end of the outermost loop.
        split: its partition.
        scratch_bytes: size of the scratch memory of one worker, the last array if there is any.

    Returns:
        The extent; the grain; the size of a part, 0 for one part per thread; the most parts; the
        stride in bytes of the scratch memory of workers.
    """
    most = -(-extent // (split.step or split.grain))
    return extent, split.grain, split.step, most, worker_bytes(scratch_bytes)


def _region(arguments: int) -> str:
    """Return LLVM's type of the data that workers share; the first field is the next part."""
    return f"{{ i32, i64, i64, i64, ptr, ptr{', ptr' * arguments} }}"


def _fields(arguments: int) -> list[tuple[str, str]]:
    """Return types and names of all fields of a region except the next part."""
    numbers = [("i64", "%part"), ("i64", "%extent"), ("i64", "%worker_bytes")]
    pointers = ["%kernel", "%scratch", *(f"%a{i}" for i in range(arguments))]
    return [*numbers, *(("ptr", name) for name in pointers)]


def _shared_out(arguments: int, mode: FloatMode | None) -> Iterator[str]:
    """Yield the body of the routine."""
    given = "".join(f"ptr %a{i}, " for i in range(arguments))
    region = _region(arguments)
    yield "entry:"
    yield f"  %region = alloca {region}, align 64"
    if mode is not None:
        yield from mode.reserved("usual")
    yield "  %alone = icmp eq ptr %threads, null"
    yield "  br i1 %alone, label %whole, label %shared"
    yield "whole:"
    yield f"  call void %kernel({given}i64 0, i64 %extent)"
    yield "  ret void"
    yield "shared:"
    for field, name in ((0, "run"), (1, "context"), (2, "workers"), (3, "scratch")):
        kind = "i32" if name == "workers" else "ptr"
        yield f"  %at.{name} = getelementptr {THREADS_TYPE}, ptr %threads, i32 0, i32 {field}"
        yield f"  %{name} = load {kind}, ptr %at.{name}"
    yield _PARTS
    yield "  store i32 0, ptr %region"
    for number, (kind, value) in enumerate(_fields(arguments), 1):
        yield f"  %field.{number} = getelementptr {region}, ptr %region, i32 0, i32 {number}"
        yield f"  store {kind} {value}, ptr %field.{number}"
    if mode is not None:  # threads that `run` creates take over the mode of this one
        yield from mode.kept("usual")
    yield "  call void %run(ptr %context, ptr @task, ptr %region, i32 %count)"
    if mode is not None:
        yield from mode.restored("usual")
    yield "  ret void"


_PARTS = """\
  %wide.workers = sext i32 %workers to i64
  %few = icmp slt i64 %wide.workers, %most
  %fewer = select i1 %few, i64 %wide.workers, i64 %most
  %some = icmp sgt i64 %fewer, 1
  %shares = select i1 %some, i64 %fewer, i64 1
  %count = trunc i64 %shares to i32
  %less = sub i64 %shares, 1
  %raised = add i64 %most, %less
  %grains = udiv i64 %raised, %shares
  %even = mul i64 %grains, %grain
  %is.even = icmp eq i64 %step, 0
  %part = select i1 %is.even, i64 %even, i64 %step"""
"""Lines for `%part`, the size of a part, and `%count`, the number of workers."""


def _task(arguments: int, mode: FloatMode | None) -> Iterator[str]:
    """Yield the body of a worker, which takes parts until none are left."""
    names = [f"%a{i}" for i in range(arguments)]
    region = _region(arguments)
    yield "entry:"
    if mode is not None:
        yield from [*mode.reserved("mode"), *mode.flushed("mode")]
    for number, (kind, name) in enumerate(_fields(arguments), 1):
        yield f"  %field.{number} = getelementptr {region}, ptr %region, i32 0, i32 {number}"
        yield f"  {name} = load {kind}, ptr %field.{number}"
    yield "  %wide = sext i32 %worker to i64"
    yield "  %before = sub i64 %wide, 1"
    yield "  %offset = mul i64 %before, %worker_bytes"
    yield "  %other = getelementptr i8, ptr %scratch, i64 %offset"
    yield "  %is.first = icmp eq i32 %worker, 0"
    yield "  %needs.none = icmp eq i64 %worker_bytes, 0"
    yield "  %keeps = or i1 %is.first, %needs.none"
    yield f"  %own = select i1 %keeps, ptr {names[-1]}, ptr %other"
    given = "".join(f"ptr {name}, " for name in (*names[:-1], "%own"))
    yield "  br label %next"
    yield "next:"
    yield "  %number = atomicrmw add ptr %region, i32 1 monotonic"
    yield "  %wide.number = zext i32 %number to i64"
    yield "  %begin = mul i64 %wide.number, %part"
    yield "  %left = icmp ult i64 %begin, %extent"
    yield "  br i1 %left, label %run, label %done"
    yield "run:"
    yield "  %stop = add i64 %begin, %part"
    yield "  %inside = icmp ult i64 %stop, %extent"
    yield "  %end = select i1 %inside, i64 %stop, i64 %extent"
    yield f"  call void %kernel({given}i64 %begin, i64 %end)"
    yield "  br label %next"
    yield "done:"
    if mode is not None:
        yield from mode.restored("mode")
    yield "  ret void"


def worker_bytes(scratch_bytes: int) -> int:
    """Return the bytes that each worker but the first needs for this much scratch memory."""
    return _multiple(scratch_bytes, SCRATCH_ALIGNMENT_BYTES)
